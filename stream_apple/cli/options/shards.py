"""The options of `evaluate` that deal the examples to several learners, as partitions, and merge their models."""

from typing import Literal, NamedTuple

import click

from stream_apple.cli.options.parameters import WholeNumber, given_options, option_group


class ShardChoice(NamedTuple):
    """The options on shards, as they were given; None: not given. `merge_every` counts epochs."""

    shards: int | None
    merge: Literal["off", "average"]
    merge_parents: Literal["votes", "union"]
    merge_every: int

    @property
    def to_merge(self) -> bool:
        """Whether models are merged."""
        return self.shards is not None and self.merge != "off"

    def check(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        if self.shards is None:
            for option in given_options("merge", "merge_parents", "merge_every"):
                raise click.UsageError(f"{option} is for --shards, which deals the examples to several learners")
        elif self.merge == "off":
            for option in given_options("merge_parents", "merge_every"):
                raise click.UsageError(f"--merge off leaves each shard alone: {option} does not apply")


shard_options = option_group(
    click.option(
        "--shards", type=click.IntRange(1, 1024), help="Deal the examples to this many learners: i to i mod SHARDS."
    ),
    click.option(
        "--merge",
        type=click.Choice(("off", "average")),
        default="average",
        show_default=True,
        help="With --shards: whether the models become one at the end of each epoch, or stay apart.",
    ),
    click.option(
        "--merge-parents",
        type=click.Choice(("votes", "union")),
        default="votes",
        show_default=True,
        hidden=True,
        help="With --shards: a merge keeps as many new parents as each model has on average (votes), or all (union).",
    ),
    click.option(
        "--merge-every",
        type=WholeNumber(1),
        default=1,
        show_default=True,
        hidden=True,
        help="With --shards: how many epochs there are from one merge to the next.",
    ),
)
"""Decorates a command with the options of `ShardChoice`."""
