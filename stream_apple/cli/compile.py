"""`stream-apple compile`: compiles kernels beforehand, for images and for machines that start workers often."""

import sys
import time
from collections.abc import Iterator
from typing import get_args

import click

from stream_apple.cli.output import say
from stream_apple.config import load
from stream_apple.config.sources import VARIABLE_PREFIX
from stream_apple.core.learner.options import CLASSES, Loss, Method

_PREFIX = "STREAM_APPLE_LEARNER__"
_MERGED = {"STREAM_APPLE_MERGE__MODE": "average"}
_FURTHER: tuple[dict[str, str], ...] = (
    {"DRIFT": "ignore"},
    {"NGRAMS": "*=2"},
    {"DISCRETISE": "auto"},
    {"PERSONALISE": "key"},
    {"L1": "0.00001"},
    {"METHOD": "linear", "L1": "0.00001"},
    {"LOSS": "logistic", "SELECTION": "mi"},
    {"LOSS": "logistic", "WARM_START": "naive_bayes"},
    {"METHOD": "linear", "LOSS": "logistic", "WARM_START": "naive_bayes"},
    {"METHOD": "tuples", "SELECTION_SHARE": "0.5"},
    {"METHOD": "tuples", "LOSS": "logistic", "WARM_START": "naive_bayes"},
    {"METHOD": "quadratic", "COLLISIONS": "share"},
)
"""Further settings that have kernels of their own. Combinations of them, which are rare, have others again."""


@click.command()
@click.option("--target", metavar="NAME", help="A type of processor, such as x86-64-v3.  [default: this one]")
def command(target: str | None) -> None:
    """Compile the kernels of all methods, losses and settings into the cache on disk, so that no worker has to.

    A worker with several settings that need kernels of their own (of l1 or l2, warm_start, selection = "mi") compiles
    the missing ones when it starts.

    The cache is below the directory in NUMBA_CACHE_DIR, or else beside the package. Its kernels are for one type of
    processor. A worker uses those of a target if NUMBA_CPU_NAME names the target and NUMBA_CPU_FEATURES is set to
    nothing; on an older processor the worker would be killed by an unknown instruction.
    """
    from stream_apple.core.jit import aim_at, check_kept

    if target is not None:
        aim_at(target)
    # These imports come after `aim_at`, as kernels are bound to a type of processor when they are imported.
    from stream_apple.app.model_factories import settings_of
    from stream_apple.core.codec.outer_map import warm_up_outer_maps
    from stream_apple.stream.model.warmup import warm_up

    started = time.monotonic()
    warm_up_outer_maps()
    families = [{_PREFIX + name: value for name, value in each.items()} for each in (*_methods_and_losses(), *_FURTHER)]
    families.append(_MERGED)
    with click.progressbar(families, label="compiling", item_show_func=_named, file=sys.stderr) as shown:
        for chosen in shown:
            settings = settings_of(load(None, chosen))
            warm_up(settings, settings.decoder())
    check_kept()
    say(f"all kernels are in the cache, after {time.monotonic() - started:.1f} s", err=True)


def _named(chosen: dict[str, str] | None) -> str | None:
    """Return these settings of the learner as a configuration spells them; None if `chosen` is None."""
    if chosen is None:
        return None
    named = {name.removeprefix(_PREFIX).removeprefix(VARIABLE_PREFIX): value for name, value in chosen.items()}
    return ", ".join(f"{name.replace('__', '.').lower()} = {value}" for name, value in named.items())


def _methods_and_losses() -> Iterator[dict[str, str]]:
    """Yield the settings of each allowed pair of method and loss."""
    for method in get_args(Method):
        for loss in get_args(Loss):
            chosen = {"METHOD": method, "LOSS": loss}
            if loss == "softmax":
                chosen["CLASSES"] = str(CLASSES.low)  # the number of classes changes no code
            if (method, loss) != ("tuples", "softmax"):
                yield chosen
