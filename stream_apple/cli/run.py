"""`stream-apple run`: runs the worker."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from stream_apple import logs
from stream_apple.cli.options.common import FROM_MODEL, load_with_model
from stream_apple.cli.service import compiling, end_at_once, exit_with, log_request, service_options
from stream_apple.config import HttpSettings, conceal
from stream_apple.signals import Signals


@click.command()
@service_options()
@FROM_MODEL
def command(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> None:
    """Learn from the examples topic and publish predictions, until stopped.

    Several workers of a group share its partitions, each under a worker.id of its own; without one, each takes
    a free one of this machine, and a free port.

    Exits with 0 after SIGTERM or SIGINT. The other exit codes: 69 Kafka is unavailable, 70 records are
    gone from the topic, 71 too many rejected records, 72 the model is no longer finite, 73 its snapshot can not
    be used, 75 another process has started with this worker.id, 78 configuration.
    """
    exit_with(lambda: _work(path, log_format, from_model), log_format)


def _work(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> int:
    from stream_apple.app.identity import named

    config = named(load_with_model(path, from_model))
    facts = {"group": config.worker.group, "worker": config.worker.id}
    logs.configure(log_format, facts, conceal, _sentences(config.http))
    from stream_apple.app.startup import open_up

    with Signals(end_at_once, log_request) as signals:
        opening = open_up(config)
        # This imports numba, which takes about as long as the checks and the fencing that have just begun.
        from stream_apple.app.worker import run

        return run(config, opening, signals)


def _sentences(http: HttpSettings) -> dict[str, logs.Sentence]:
    """Return a sentence for each event that a person at a terminal waits for; others are shown with their fields."""
    return {
        "started": lambda told: f"the status page is {http.address(told['http_port'])}",
        "compiling": compiling,
        "live": lambda told: f"partition {told['partition']} is live, from offset {told['offset']:,} on",
        "epoch_ended": lambda told: (
            f"partition {told['partition']}: epoch {told['epoch']} has ended, {_losses(told)}; "
            f"{told['parents_added']:,} new parents"
            + (f"; {told['epochs']:,} epochs since the last line" if told["epochs"] > 1 else "")
        ),
        "epochs_too_short": lambda told: (
            f"partition {told['partition']}: {told['epochs']:,} epochs of {told['length']} had "
            f"{told['examples']:,} examples in all, and most of the time goes into growing at their ends: try "
            f'{told["setting"]} = "{told["better"]}", with a new worker.group'
        ),
        "caught_up": lambda told: (
            f"caught up: {told['examples']:,} examples learned, every record is answered, {_losses(told)}"
        ),
    }


def _losses(told: Mapping[str, Any]) -> str:
    """Return the published loss, compared with the linear predictor's, in words."""
    loss, linear = told["loss"], told["linear_loss"]
    if loss is None or linear is None:
        return "no labels yet"
    compared = f"{abs(loss / linear - 1):.1%} {'above' if loss > linear else 'below'}" if linear else "beside"
    return f"loss {loss:.4f}, {compared} linear's {linear:.4f}"
