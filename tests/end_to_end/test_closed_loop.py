"""The closed loop on a real broker, as docs/closed-loop.md has it: every process is killed, and nothing is lost."""

import subprocess
import sys
import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import msgpack
from support.command import call_command
from support.topics import read_to_end
from support.worker_config import write_config
from support.worker_process import DEADLINE_S, WorkerProcess

from stream_apple.config import load

PARTITIONS = 2
REQUESTS, RATE = 1500, 75
COMMANDS = ("run", "join", "serve")


def test_each_impression_is_learned_once_whoever_is_killed(kafka: str, tmp_path: Path) -> None:
    """The worker, the joiner and the server are killed while a site asks: one example for each of its impressions."""
    mark = uuid.uuid4().hex[:12]
    names = ("examples", "predictions", "dead_letters", "models")
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics={name: f"{name}-{mark}" for name in names},
        worker={"commit_interval": "100ms", "snapshot_interval": "2s"},
        learner={"loss": "logistic", "bits": 14},
        epochs={"length": "2s"},
        join={
            "impressions": f"impressions-{mark}",
            "outcomes": f"outcomes-{mark}",
            "dead_letters": f"join-dead-letters-{mark}",
            "group": f"join-{mark}",
            "wait": "2s",
            "tolerance": "2s",
            "default_label": 0,
        },
        serve={"host": "127.0.0.1", "port": 0},
    )
    config = load(path, {})
    made = call_command("topics", "--config", path, "--partitions", str(PARTITIONS))
    assert made.returncode == 0, made.stderr

    with ExitStack() as stack:

        def start(command: str, port: int = 0) -> WorkerProcess:
            settings = {"STREAM_APPLE_SERVE__PORT": str(port)} if command == "serve" else {}
            log = tmp_path / f"{command}.log"
            return stack.enter_context(WorkerProcess(path, log, settings=settings, command=command))

        running = {command: start(command) for command in COMMANDS}
        port = running["serve"].http_port
        site = stack.enter_context(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "stream_apple", "generate", "--config", path, "--day", "10s"),
                    *("--limit", str(REQUESTS), "--rate", str(RATE), "--ask", f"http://127.0.0.1:{port}"),
                ],
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(site.kill)

        def seen(topic: str) -> int:
            return sum(map(len, read_to_end(kafka, topic, PARTITIONS).values()))

        for command in COMMANDS:
            goal = seen(config.topics.predictions) + 100
            running["run"].wait_until(lambda: seen(config.topics.predictions) >= goal, "it had learned on", 0.3)  # noqa: B023
            running[command].kill()
            running[command] = start(command, port)
        _, said = site.communicate(timeout=DEADLINE_S)
        assert site.returncode == 0, said
        running["run"].wait_until(lambda: seen(config.topics.predictions) >= REQUESTS, "all were learned", 0.3)
        for command in COMMANDS:
            assert running[command].http_port, "the one that was killed last is at work again"
            assert running[command].terminate() == 0

    assert f"sent {REQUESTS:,} impressions" in said
    assert "had no answer, the others a loss of 0." in said
    examples, shown, clicked = (
        [
            (place, message, msgpack.unpackb(message.value() or b""))
            for place, messages in read_to_end(kafka, topic, PARTITIONS).items()
            for message in messages
        ]
        for topic in (config.topics.examples, config.join.impressions, config.join.outcomes)
    )
    clicks = {value["id"] for _, _, value in clicked if "id" in value}
    found = {value["id"]: (place, message.timestamp(), value["label"]) for place, message, value in examples}
    assert len(examples) == len(found) == REQUESTS
    assert found == {
        value["id"]: (place, message.timestamp(), float(value["id"] in clicks)) for place, message, value in shown
    }
    assert Counter(place for place, _, _ in examples).keys() == set(range(PARTITIONS))
    assert REQUESTS / 10 < len(clicks) < REQUESTS
