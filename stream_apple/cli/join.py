"""`stream-apple join`: runs the joiner."""

from pathlib import Path

import click

from stream_apple import logs
from stream_apple.cli.service import end_at_once, exit_with, log_request, service_options
from stream_apple.config import HttpSettings, conceal, load
from stream_apple.errors import ConfigurationError
from stream_apple.signals import Signals


@click.command()
@service_options()
def command(path: Path | None, log_format: logs.LogFormat) -> None:
    """Make examples of impressions and of the outcomes that come later, until stopped.

    Impressions wait in their topic for `join.wait`; what they then become is a function of the two topics. Several
    joiners of a group (join.group) share the partitions, each under a worker.id of its own.

    Exits with 0 after SIGTERM or SIGINT. The other exit codes: 69 Kafka is unavailable, 70 impressions are
    gone from the topic, 75 another process has started with this worker.id, 78 configuration.
    """
    exit_with(lambda: _work(path, log_format), log_format)


def _work(path: Path | None, log_format: logs.LogFormat) -> int:
    from stream_apple.app.identity import named

    config = load(path)
    try:
        config.check_join()
    except ValueError as error:
        raise ConfigurationError(f"the configuration has a fault: {error}") from None
    config = named(config.with_worker(group=config.join.group))
    logs.configure(
        log_format, {"group": config.worker.group, "worker": config.worker.id}, conceal, _sentences(config.http)
    )
    with Signals(end_at_once, log_request) as signals:
        from stream_apple.app.joiner import join_until_stopped

        return join_until_stopped(config, signals)


def _sentences(http: HttpSettings) -> dict[str, logs.Sentence]:
    """Return a sentence for each event that a person at a terminal waits for; others are shown with their fields."""
    return {
        "started": lambda told: f"metrics are at {http.address(told['http_port'])}metrics",
        "join_live": lambda told: f"partition {told['partition']} joins impressions from offset {told['offset']:,} on",
    }
