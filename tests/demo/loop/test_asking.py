"""What the site makes of what `serve` says, and of its silence."""

import socket
from contextlib import closing

import pytest
from support.canned_replica import CannedReplica

from stream_apple.demo.loop.asking import Asker
from stream_apple.errors import ConfigurationError


def test_asks_for_one_instance_of_its_partition(canned_replica: CannedReplica) -> None:
    """Or of its key, in JSON; the answer is the log-odds."""
    canned_replica.answer = (200, b'{"predictions": [{"prediction": -0.75, "probability": 0.32}]}')
    with closing(Asker(canned_replica.address, "demo", 3)) as asker:
        assert asker.ask({"ad=wine": 1.0}, "u1") == -0.75
    with closing(Asker(canned_replica.address, "demo")) as asker:
        assert asker.ask({}, "u1") == -0.75
    (path, body), (_, by_key) = canned_replica.asked
    assert by_key == b'{"instances": [{"features": {}, "key": "u1"}]}'
    assert path == "/v1/models/demo:predict"
    assert body == b'{"instances": [{"features": {"ad=wine": 1.0}, "partition": 3}]}'


def test_without_a_model_there_is_no_answer(canned_replica: CannedReplica) -> None:
    """Status 503 is no error: the replica waits for the first commit."""
    with closing(Asker(canned_replica.address, "demo", 0)) as asker:
        canned_replica.answer = (503, b'{"error": "no model"}')
        assert asker.ask({}, "u1") is None
        canned_replica.answer = (200, b'{"predictions": [{"prediction": 1}]}')
        assert asker.ask({}, "u1") == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        (400, b'{"error": "instance 0: ..."}'),
        (200, b"<html>"),
        (200, b'{"predictions": []}'),
        (200, b'{"predictions": [{}]}'),
        (200, b'{"predictions": [{"prediction": null}]}'),
        (200, b"[]"),
    ],
)
def test_any_other_answer_is_an_error(canned_replica: CannedReplica, answer: tuple[int, bytes]) -> None:
    """It names the status, and what was said."""
    canned_replica.answer = answer
    with (
        closing(Asker(canned_replica.address, "demo", 0)) as asker,
        pytest.raises(ConfigurationError, match=f"status {answer[0]}"),
    ):
        asker.ask({}, "u1")


def test_nobody_there_is_no_answer() -> None:
    """The site goes on without; who has ended is told by who looks after the processes."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert Asker(f"http://127.0.0.1:{port}", "demo", 0).ask({}, "u1") is None
