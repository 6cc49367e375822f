"""What `stream-apple run` says to somebody at a terminal: sentences for what one waits for, events for the rest."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from confluent_kafka import Producer
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.planted_pair import planted
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config

from stream_apple import logs
from stream_apple.cli.run import _sentences
from stream_apple.config import HttpSettings

COUNT = 2_000
_SECONDS = 180.0  # the kernels may have to be compiled first


class Terminal:
    """A terminal with a process in front of it."""

    def __init__(self, *command: str | Path) -> None:
        self._ours, theirs = pty.openpty()
        self.text = ""
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        finally:
            os.close(theirs)

    def read(self) -> str:
        """All that it has shown so far."""
        while select.select([self._ours], [], [], 0.05)[0]:
            try:
                self.text += os.read(self._ours, 65536).decode()
            except OSError:  # nobody is left who could write to it
                break
        return self.text

    def close(self) -> None:
        """Take it away."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def test_a_terminal_is_told_what_one_waits_for(tmp_path: Path) -> None:
    """The page's address, the loss at each epoch, and that all is answered; the settings are not poured over it."""
    with MockCluster() as cluster:
        make_mock_topics(cluster.bootstrap, "examples", "predictions", "dead-letters", "models")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for record in planted(COUNT):
            producer.produce("examples", record.payload, partition=0, timestamp=record.time_ms)
        assert producer.flush(DEADLINE_S) == 0
        config = write_config(
            tmp_path / "stream_apple.toml",
            cluster.bootstrap,
            kafka={"log_level": 3},
            learner={"bits": 12},
            epochs={"max_ahead": "365d"},
        )
        terminal = Terminal(sys.executable, "-m", "stream_apple", "run", "--config", config)
        try:
            wait_until(lambda: f"caught up: {COUNT:,} examples learned" in terminal.read(), terminal.read, _SECONDS)
            terminal.process.terminate()
            wait_until(lambda: terminal.read() and terminal.process.poll() is not None, terminal.read, _SECONDS)
            assert terminal.process.returncode == 0
        finally:
            terminal.close()
    lines = terminal.text.splitlines()
    assert sum("the status page is http://127.0.0.1:" in line for line in lines) == 1
    assert sum("partition 0 is live, from offset 0 on" in line for line in lines) == 1
    ends = [line for line in lines if "partition 0: epoch 4000" in line]
    assert len(ends) == 7
    assert all(" has ended, loss " in line and " linear's " in line for line in ends)
    assert "% below linear's " in ends[-1]
    told = [line for line in lines if line.replace("\x1b[0m", "").strip()]  # a terminal is reset at the end
    assert "stopped" in told[-1]
    assert "bootstrap.servers" not in terminal.text


def said(event: str, **fields: Any) -> str:
    """The sentence for an event."""
    return _sentences(HttpSettings())[event]({"event": event, **fields})


@pytest.mark.parametrize(
    ("loss", "linear", "expected"),
    [
        (0.3, 0.4, "loss 0.3000, 25.0% below linear's 0.4000"),
        (0.5, 0.4, "loss 0.5000, 25.0% above linear's 0.4000"),
        (0.5, 0.0, "loss 0.5000, beside linear's 0.0000"),
        (None, None, "no labels yet"),
    ],
)
def test_losses_stand_beside_linear_s(loss: float | None, linear: float | None, expected: str) -> None:
    """Whether there are any or not."""
    fields = {"partition": 3, "epoch": 7, "parents_added": 1200, "loss": loss, "linear_loss": linear, "epochs": 1}
    assert said("epoch_ended", **fields) == f"partition 3: epoch 7 has ended, {expected}; 1,200 new parents"
    thinned = said("epoch_ended", **fields | {"epochs": 5000})
    assert thinned == f"partition 3: epoch 7 has ended, {expected}; 1,200 new parents; 5,000 epochs since the last line"
    assert said("caught_up", examples=0, loss=loss, linear_loss=linear).endswith(f"is answered, {expected}")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://localhost:1234/"),
        ("::", "http://localhost:1234/"),
        ("127.0.0.1", "http://127.0.0.1:1234/"),
        ("::1", "http://[::1]:1234/"),
        ("box.example", "http://box.example:1234/"),
    ],
)
def test_the_address_is_one_that_a_browser_takes(host: str, address: str) -> None:
    """All addresses of a machine are none; those of IPv6 have brackets."""
    assert HttpSettings(host=host).address(1234) == address
    assert HttpSettings(host=host, port=1234).address() == address


@pytest.mark.usefixtures("own_logging")
def test_other_lines_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """An event without a sentence, one whose fields are not those of the sentence, and every line of JSON."""
    sentences = _sentences(HttpSettings())
    logs.configure("human", sentences=sentences)
    structlog.get_logger().info("restored", seconds=3)
    structlog.get_logger().info("live", other=3)
    first, second = capsys.readouterr().err.splitlines()
    assert "restored" in first
    assert "seconds=3" in first
    assert "live" in second
    assert "other=3" in second
    logs.configure("json", sentences=sentences)
    structlog.get_logger().info("live", partition=3, offset=4)
    found = json.loads(capsys.readouterr().err)
    assert (found["event"], found["partition"], found["offset"]) == ("live", 3, 4)
