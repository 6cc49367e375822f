"""`stream-apple serve`: answers over HTTP with replicas of the models."""

from pathlib import Path

import click

from stream_apple import logs
from stream_apple.cli.options.common import FROM_MODEL, load_with_model
from stream_apple.cli.service import compiling, end_at_once, exit_with, log_request, service_options
from stream_apple.config import conceal
from stream_apple.signals import Signals


@click.command()
@service_options("TOML file, the workers' own")
@FROM_MODEL
def command(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> None:
    """Answer over HTTP with models that follow those of the workers, until stopped.

    POST /v1/models/NAME:predict with {"instances": [{"features": {"price": 1.5}, "key": "u1"}]}, JSON or msgpack;
    NAME is serve.name, or worker.group. Each answer names the partition and the offset of the model that gave it, by
    which `stream-apple score` makes it again. The process joins no group and writes nothing to Kafka, so any number of
    them may run. See docs/serving.md.

    Exits with 0 after SIGTERM or SIGINT; with 69 if no broker answers within a minute of the start, 78 if the
    configuration is wrong.
    """
    exit_with(lambda: _serve(path, log_format, from_model), log_format)


def _serve(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> int:
    config = load_with_model(path, from_model)
    url = config.serve.address
    sentences: dict[str, logs.Sentence] = {
        "compiling": compiling,
        "serving": lambda told: f"predictions: POST {url(told['http_port'])}v1/models/{config.served_as}:predict",
        "replica_restored": lambda told: (
            f"partition {told['partition']} has a model, as of offset {told['offset']:,}, and follows its worker"
        ),
    }
    logs.configure(log_format, {"group": config.worker.group}, conceal, sentences)
    with Signals(end_at_once, log_request) as signals:
        from stream_apple.app.serve import serve

        return serve(config, signals)
