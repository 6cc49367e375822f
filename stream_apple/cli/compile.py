"""`stream-apple compile`: compiles kernels beforehand, for images and for machines that start workers often."""

import sys
import time
from collections.abc import Iterator

import click

from stream_apple.cli.output import say
from stream_apple.config import config_of
from stream_apple.core.compile_notice import tell_of_compiling
from stream_apple.learners.losses import LOSSES
from stream_apple.learners.options import CLASSES, SYSTEMS


@click.command()
@click.option("--target", metavar="NAME", help="A type of processor, such as x86-64-v3.  [default: this one]")
def command(target: str | None) -> None:
    """Compile the kernels of all systems, methods, and losses into the cache on disk, so that no worker has to.

    The cache is below the directory in NUMBA_CACHE_DIR, or else beside the package. Its kernels are for one type of
    processor. A worker uses those of a target if NUMBA_CPU_NAME names the target and NUMBA_CPU_FEATURES is set to
    nothing; on an older processor the worker would be killed by an unknown instruction.
    """
    from stream_apple.core.jit import aim_at, check_kept

    tell_of_compiling(lambda: None)  # there is a bar
    if target is not None:
        aim_at(target)
    # These imports come after `aim_at`, as kernels are bound to a type of processor when they are imported.
    from stream_apple.app.model_factories import settings_of
    from stream_apple.stream.model.warmup import warm_up

    started = time.monotonic()
    families: list[dict[str, dict[str, object]]] = [{"learner": each} for each in _learners()]
    families.append({"merge": {"mode": "average"}})
    with click.progressbar(families, label="compiling", item_show_func=_named, file=sys.stderr) as shown:
        for chosen in shown:
            settings = settings_of(config_of(chosen, "compile"))
            warm_up(settings, settings.decoder())
    check_kept()
    say(f"all kernels are in the cache, after {time.monotonic() - started:.1f} s", err=True)


def _named(chosen: dict[str, dict[str, object]] | None) -> str | None:
    if chosen is None:
        return None
    return ", ".join(
        f"{section}.{name} = {value}" for section, entries in chosen.items() for name, value in entries.items()
    )


def _learners() -> Iterator[dict[str, object]]:
    """Yield settings of the learner that together need all kernels: each has some of its own, or another loss."""
    apple, tuples, hashed = (SYSTEMS[name].declared for name in ("apple", "tuples", "hashed"))
    for method in apple["method"].choices:
        for loss in LOSSES.values():
            # The number of classes changes no code.
            yield {"method": method, "loss": loss.name} | ({"classes": CLASSES.low} if loss.multiclass else {})
    yield {"ngrams": {"*": 2}}
    yield {"discretise": "none"}
    yield {"mixture": False, "loss": "logistic", "paper": {"steps": "theorem1"}}
    for name in tuples["loss"].choices:
        yield {"system": "tuples", "tuples": {"loss": name, "selection_share": 0.5}}
    for name in hashed["loss"].choices:
        yield {"system": "hashed", "hashed": {"loss": name}}
    yield {"system": "hashed", "hashed": {"personalise": "user"}}
