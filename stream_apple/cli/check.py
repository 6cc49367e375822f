"""`stream-apple check`: checks the configuration against the live cluster."""

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_apple.app.identity import first_name
from stream_apple.cli.options.common import CONFIG, FROM_MODEL, load_with_model
from stream_apple.cli.output import say
from stream_apple.config import Config, conceal
from stream_apple.errors import ConfigurationError
from stream_apple.stream.learning.threads import usable_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stream_apple.adapters.kafka.admin import Finding

_COLOURS = {"ok": "green", "note": "cyan", "fault": "red"}


@click.command()
@CONFIG
@FROM_MODEL
def command(path: Path | None, from_model: Path | None) -> None:
    """Check the configuration against the live cluster.

    Each line is ok, note or fault. Exits with 78 if there is a fault.
    """
    # These import numba and the Kafka client, for which `--help` would wait.
    from stream_apple.adapters.kafka.preflight.cluster_check import check_cluster
    from stream_apple.app.starting_model import check_starting_model
    from stream_apple.app.topic_owner import check_output_topics

    config = load_with_model(path, from_model)
    if not config.worker.id:
        config = config.with_worker(id=first_name())
    faults = 0
    cluster = check_cluster(config, usable_cores())
    findings = chain(check_starting_model(config), cluster, check_output_topics(config), _of_records(config))
    for finding in findings:
        verdict = click.style(f"{finding.verdict:5}", fg=_COLOURS[finding.verdict])
        say(f"  {finding.subject}: {conceal(finding.text)}", styled=verdict)
        faults += finding.verdict == "fault"
        if finding.subject == "cluster" and finding.verdict == "fault":
            break  # the others would wait for the same brokers
    if faults:
        sys.exit(ConfigurationError.exit_code)


def _of_records(config: Config) -> "Iterator[Finding]":
    """Yield the findings of `check_records`, whose imports take longer than all checks before it."""
    from stream_apple.app.record_check import check_records

    yield from check_records(config)
