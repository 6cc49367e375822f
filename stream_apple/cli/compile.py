"""`stream-apple compile`: machine code made beforehand, for images and for machines that start workers often."""

import time
from typing import get_args

import click

from stream_apple.config import load
from stream_apple.core.decode import Decoder
from stream_apple.core.learner import Loss, Method


@click.command()
def command() -> None:
    """Compile every kernel into the cache on disk, so that no worker has to.

    The cache is below the directory in NUMBA_CACHE_DIR, or else beside the package. What is in it is for one type of
    processor: that of this machine, unless NUMBA_CPU_NAME names another one; a worker uses it if that variable has
    the same value for both.
    """
    from stream_apple.adapters.worker import model_settings
    from stream_apple.runtime.warmup import warm_up

    started = time.monotonic()
    for method in get_args(Method):
        for loss in get_args(Loss):
            chosen = {"STREAM_APPLE_LEARNER__METHOD": method, "STREAM_APPLE_LEARNER__LOSS": loss}
            settings = model_settings(load(None, chosen))
            warm_up(settings, Decoder(settings.limits))
    click.echo(f"every kernel is in the cache, after {time.monotonic() - started:.1f} s", err=True)
