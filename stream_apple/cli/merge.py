"""`stream-apple merge`: makes one model of several that are saved in files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_apple.cli.options.common import AS_JSON
from stream_apple.cli.options.parameters import OutputFile, refuse_writing_over
from stream_apple.cli.output import say

if TYPE_CHECKING:
    from stream_apple.learners.merging_port import Parents


@click.command(name="merge")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE..."
)
@click.option("--out", required=True, type=OutputFile(), help="Write the merged model to this file.")
@click.option(
    "--parents",
    type=click.Choice(("votes", "union")),
    default="votes",
    show_default=True,
    help="Which parents that are new since an earlier merge stay: as many as each model has in the mean, or all.",
)
@AS_JSON
def command(files: tuple[Path, ...], out: Path, parents: "Parents", *, as_json: bool) -> None:
    """Make one model of the models in FILES, which `stream-apple inspect --save` has written.

    They must have been learned with the same options of the learner. Weights are averaged, each by how much its model
    has learned about it; an earlier parent stays one, unless it retired in more models than kept it. The order of FILES
    decides the last bits. `inspect --file` shows the merged model, and the models that it was made of.

    Exits with 73 if a file is damaged, 78 if models can't be merged, or not with each other.
    """
    refuse_writing_over({"--out": out}, files)
    # This imports numba, for which `--help` and a mistyped option would wait.
    from stream_apple.app.model_files import merge_model_files

    counts, digest = merge_model_files(files, out, parents)
    if as_json:
        say(json.dumps({"models": len(files), "digest": digest, **counts._asdict()}))
        return
    say(
        f"{len(files)} models are one: {counts.kept:,} of {counts.keys:,} monomials have a slot, {counts.evicted:,} "
        f"were evicted, {counts.parents_evicted:,} parents among them"
    )
    if counts.models_dropped:
        say(
            f"{counts.models_dropped} of the models do not count: they cut numbers, or have units of labels, by "
            f"examples of their own; those that do so alike, and have learned most, are merged"
        )
    say(f"digest {digest}, in {out}")
