"""The first steps of a worker: what they take, in which order, and what they leave to later."""

import json
import socket
import subprocess
import sys

import pytest

from stream_apple.adapters.http.listener import listen
from stream_apple.app import startup
from stream_apple.app.startup import open_up
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError


def _config(port: int) -> Config:
    environ = {
        "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "STREAM_APPLE_HTTP__HOST": "127.0.0.1",
        "STREAM_APPLE_HTTP__PORT": str(port),
    }
    return load(None, environ)


def test_nothing_heavy_is_imported() -> None:
    """Numba and numpy come while the predecessor is being fenced; before that, they would only delay it."""
    code = "import json, sys, stream_apple.app.startup; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(answer.stdout)
    assert "confluent_kafka" in modules
    assert not {"numpy", "numba", "prometheus_client"} & set(modules)


def test_who_does_not_get_the_port_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the address, and Kafka has not been asked for anything."""

    def connect(_: Config) -> None:
        pytest.fail("it has connected")

    monkeypatch.setattr(startup, "connect", connect)
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"expected to listen on 127.0.0.1 port {port}, found: .*in use"):
            open_up(_config(port))


def test_the_port_answers_before_the_server_is_up() -> None:
    """Whoever asks meanwhile waits for the answer; the fence has begun."""
    listener, kafka = open_up(_config(0))
    with listener, socket.create_connection(listener.getsockname(), 5):
        assert kafka._producer._fencing is not None
    kafka.shorten_deadline()
    kafka.close()
