"""Two groups with different settings learn one topic on a real broker: `compare` finds the better one."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.command import call_command, run_command
from support.local_http import fetch, metric
from support.ports import free_ports
from support.records import HOUR, START
from support.topics import TopicFactory, create_worker_topics, read_all
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load
from stream_apple.config.sources import variable
from stream_apple.errors import ConfigurationError

COUNT, LATER, PARTITIONS = 6_000, 1_000, 2

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def _feed(kafka: str, topic: str, start: int, stop: int) -> None:
    """Clicks that a product decides: what a linear model can't learn."""
    draw, producer = random.Random(start), Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for at in range(start, stop):
        device, country = draw.choice(["phone", "desk"]), draw.choice(["de", "in"])
        label = 1 if (device == "phone") == (country == "de") else -1
        value = {
            "label": label,
            "features": {"device": device, "country": country},
            "weight": (at // PARTITIONS) % 2 + 1,
        }
        time_ms = START + at * 6 * HOUR // COUNT
        text = "nonsense" if at % 500 == 7 else json.dumps(value)
        producer.produce(topic, text, partition=at % PARTITIONS, timestamp=time_ms)
    assert producer.flush(DEADLINE_S) == 0


def _is_ready(port: int) -> bool:
    with suppress(OSError):
        return fetch(port, "/readyz").status == HTTPStatus.OK
    return False


def _served(config: Path, log: Path) -> dict[str, Any]:
    """What a replica of this group's models says under a name that is not the group's."""
    settings = {"STREAM_APPLE_SERVE__NAME": "clicks", "STREAM_APPLE_SERVE__PORT": "0"}
    asked = {"instances": [{"features": {"device": "phone", "country": "de"}, "partition": 1}]}
    with WorkerProcess(config, log, settings=settings, command="serve") as replica:
        port = replica.http_port
        replica.wait_until(lambda: fetch(port, "/v2/models/clicks/ready").status == HTTPStatus.OK, "it was ready")

        def answer() -> dict[str, Any] | None:
            found: dict[str, Any] = fetch(port, "/v1/models/clicks:predict", "POST", json.dumps(asked).encode()).json()
            return found if found["as_of"][0]["offset"] == (COUNT + LATER) // PARTITIONS else None

        reply = replica.wait_until(answer, "it had followed its group to the end")
        assert reply is not None
        assert replica.terminate() == 0
    return reply


def _promote(paths: dict[str, Path], directory: Path) -> None:
    """A replica that is given the challenger's configuration answers in its place, where it was asked before.

    The challenger's group with the champion's settings is refused.
    """
    before, after = (_served(paths[name], directory / f"serve-{name}.log") for name in ("champion", "challenger"))
    assert before["model"] != after["model"]
    # Only a product decides: to the linear model it is about even.
    assert after["predictions"][0]["probability"] > 0.9 > before["predictions"][0]["probability"]

    group = load(paths["challenger"], {}).worker.group
    refused = run_command(
        "serve", "--config", paths["champion"], environment={**os.environ, variable("worker", "group"): group}
    )
    assert refused.returncode == ConfigurationError.exit_code
    assert f"expected the models of group {group} to be of this configuration" in refused.stderr


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """None of them outlives the test."""
    with ExitStack() as started:
        yield started


def test_the_better_group_is_found(kafka: str, topic: TopicFactory, tmp_path: Path, processes: ExitStack) -> None:
    """At rest, with weights, and while both learn on; with metrics, and a table. Then it is promoted."""
    shared = create_worker_topics(topic, PARTITIONS)
    paths: dict[str, Path] = {}
    workers: list[WorkerProcess] = []
    for name, method in (("champion", "linear"), ("challenger", "apple")):
        own = create_worker_topics(topic, PARTITIONS) | {"examples": shared["examples"]}
        paths[name] = write_config(
            tmp_path / f"{name}.toml",
            kafka,
            topics=own,
            worker={"group": f"{name}-{shared['examples']}", "commit_interval": "50ms", "snapshot_interval": "1h"},
            learner={"bits": 12, "loss": "logistic", "method": method},
            epochs={"length": "1h"},
            limits={"max_features": 16},
            http={"host": "0.0.0.0"},  # the default, which is no address to open
        )
        topic_of_predictions = own["predictions"]
        if name == "champion":
            _feed(kafka, shared["examples"], 0, COUNT)
        bad = sum(1 for at in range(COUNT) if at % 500 == 7)
        workers.append(processes.enter_context(WorkerProcess(paths[name], tmp_path / f"{name}.log")))
        workers[-1].wait_for_event("live")
        workers[-1].wait_until(
            lambda: len(read_all(kafka, topic_of_predictions, PARTITIONS)) >= COUNT - bad,  # noqa: B023
            "all was answered",
            pause_s=0.3,
        )
    sides = ("--champion", str(paths["champion"]), "--challenger", str(paths["challenger"]))

    def compared(command: Command, *options: str) -> dict[str, Any]:
        found = command("compare", *sides, "--json", *options)
        assert found.returncode == 0, found.stderr
        facts: dict[str, Any] = json.loads(found.stdout)
        return facts

    facts = compared(run_command)
    assert facts["complete"]
    assert facts["whole"]["pairs"] == COUNT - bad
    assert facts["whole"]["better"] == "challenger"
    assert facts["whole"]["difference"] > facts["whole"]["radius"] > 0.0
    assert facts["whole"]["since_ms"] >= START
    assert len(facts["epochs"]) == 6
    weighted = compared(call_command, "--weights")
    assert weighted["whole"]["pairs"] == COUNT - bad
    assert weighted["whole"]["champion_loss"] != facts["whole"]["champion_loss"]
    assert weighted["whole"]["better"] == "challenger"
    turned = call_command("compare", sides[0], sides[3], sides[2], sides[1])
    assert "champion is better by" in turned.stdout, turned.stderr

    (port,) = free_ports(1)
    command = [sys.executable, "-m", "stream_apple", "compare", *sides, "--follow", "--serve", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            wait_until(lambda: _is_ready(port), "it was ready")
            assert metric(port, "stream_apple_comparison_least_gain_ratio")[0] > 0.0
            _feed(kafka, shared["examples"], COUNT, COUNT + LATER)
            wait_until(
                lambda: metric(port, "stream_apple_comparison_pairs") == [COUNT - bad + LATER - 2],
                "what came later was compared",
            )
            assert json.loads(fetch(port, "/comparison").body)["whole"]["better"] == "challenger"
        finally:
            follower.terminate()
        output, _ = follower.communicate(timeout=DEADLINE_S)
    assert follower.returncode == 0
    assert output.startswith(f"stream-apple: http://localhost:{port}/\n")
    assert "challenger is better by" in output
    for worker in workers:
        assert worker.terminate() == 0
    _promote(paths, tmp_path)
