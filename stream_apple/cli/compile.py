"""`stream-apple compile`: compiles kernels beforehand, for images and for machines that start workers often."""

import sys
import time
from collections.abc import Iterator
from typing import get_args

import click

from stream_apple.cli.output import say
from stream_apple.config import config_of
from stream_apple.core.compile_notice import tell_of_compiling
from stream_apple.learners.apple.options import CLASSES, Method
from stream_apple.learners.losses import LOSSES

_FURTHER: tuple[dict[str, object], ...] = (
    {"ngrams": {"*": 2}},
    {"discretise": "none"},
)
"""Further settings that have kernels of their own."""


@click.command()
@click.option("--target", metavar="NAME", help="A type of processor, such as x86-64-v3.  [default: this one]")
def command(target: str | None) -> None:
    """Compile the kernels of all methods, losses and settings into the cache on disk, so that no worker has to.

    The cache is below the directory in NUMBA_CACHE_DIR, or else beside the package. Its kernels are for one type of
    processor. A worker uses those of a target if NUMBA_CPU_NAME names the target and NUMBA_CPU_FEATURES is set to
    nothing; on an older processor the worker would be killed by an unknown instruction.
    """
    from stream_apple.core.jit import aim_at

    tell_of_compiling(lambda: None)  # there is a bar
    if target is not None:
        aim_at(target)
    # These imports come after `aim_at`, as kernels are bound to a type of processor when they are imported.
    from stream_apple.app.model_factories import settings_of
    from stream_apple.records.message.outer_map import warm_up_outer_maps
    from stream_apple.stream.model.warmup import warm_up

    started = time.monotonic()
    warm_up_outer_maps()
    families: list[dict[str, dict[str, object]]] = [{"learner": each} for each in (*_methods_and_losses(), *_FURTHER)]
    families.append({"merge": {"mode": "average"}})
    with click.progressbar(families, label="compiling", item_show_func=_named, file=sys.stderr) as shown:
        for chosen in shown:
            settings = settings_of(config_of(chosen, "compile"))
            warm_up(settings, settings.decoder())
    say(f"all kernels are in the cache, after {time.monotonic() - started:.1f} s", err=True)


def _named(chosen: dict[str, dict[str, object]] | None) -> str | None:
    if chosen is None:
        return None
    return ", ".join(
        f"{section}.{name} = {value}" for section, entries in chosen.items() for name, value in entries.items()
    )


def _methods_and_losses() -> Iterator[dict[str, object]]:
    """Yield the settings of each allowed pair of method and loss."""
    for method in get_args(Method):
        for loss in LOSSES.values():
            chosen: dict[str, object] = {"method": method, "loss": loss.name}
            if loss.multiclass:
                chosen["classes"] = CLASSES.low  # the number of classes changes no code
            yield chosen
