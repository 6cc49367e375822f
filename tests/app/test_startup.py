"""The first steps of a worker: what they take, in which order, and what they leave to later."""

import json
import socket
import subprocess
import sys

import pytest
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.app import startup
from stream_apple.app.startup import open_up
from stream_apple.config import Config, load
from stream_apple.config.memory import MemoryLimit
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.http.listener import listen


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


def test_a_port_that_is_not_set_is_the_first_free_one() -> None:
    """Several workers of a machine need no settings; one that is set is taken or refused, and the message says how."""
    free, taken = Config().http, load(None, {"STREAM_APPLE_HTTP__PORT": "9400"}).http
    assert (free.port, len(free.ports), list(taken.ports)) == (9400, 100, [9400])
    with listen("127.0.0.1", *free.ports) as first, listen("127.0.0.1", *free.ports) as second:
        ports = [each.getsockname()[1] for each in (first, second)]
        assert ports[0] < ports[1]
        assert set(ports) <= set(free.ports)
        with pytest.raises(ConfigurationError, match=r"STREAM_APPLE_HTTP__PORT\) names another"):
            listen("127.0.0.1", ports[0])
        with pytest.raises(ConfigurationError, match=f"on 127.0.0.1 ports {ports[0]} to {ports[1]}, found: "):
            listen("127.0.0.1", *ports)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("STREAM_APPLE_LEARNER__BITS", "30", "learner.bits, limits.max_features_per_example: expected models that fit"),
        ("STREAM_APPLE_KAFKA__LINGER_MS", "45000", "kafka.linger.ms: expected less than 45000"),
        ("STREAM_APPLE_KAFKA__MESSAGE_MAX_BYTES", "5000", "kafka.message.max.bytes: expected at least 1114124"),
        ("STREAM_APPLE_HTTP__HOST", "a..b", "http: expected to listen on a..b port 0, found: "),
    ],
)
def test_what_can_not_work_is_refused_before_anybody_is_fenced(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    """No client is made; the predecessor, who has other settings, goes on."""

    def make(*_: object) -> None:
        pytest.fail("it has connected")

    monkeypatch.setattr(startup, "KafkaBroker", make)
    monkeypatch.setattr("stream_apple.config.memory.memory_limit", lambda: MemoryLimit(1 << 30, "limit of x"))
    config = load(None, {"STREAM_APPLE_HTTP__PORT": "0", name: value})
    with pytest.raises(ConfigurationError) as caught:
        open_up(config)
    assert str(caught.value).startswith(says)


def test_no_broker_at_the_start_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a question that has no answer for as long as any question may take."""
    monkeypatch.setattr(RetryPolicy.__init__, "__defaults__", (0.1,))
    listener, kafka, permission = open_up(_config(0))
    with listener, pytest.raises(BrokerError, match="topic examples: no success within") as caught:
        permission.result(DEADLINE_S)
    assert caught.value.exit_code == 69
    kafka.close()


def test_the_port_answers_before_the_server_is_up() -> None:
    """Whoever asks meanwhile waits for the answer; what is there is being looked at, and nobody is fenced."""
    listener, kafka, permission = open_up(_config(0))
    with listener, socket.create_connection(listener.getsockname(), 5):
        assert not permission.done()
        assert kafka._producer._epoch.fencing is None
    kafka.shorten_deadline()
    kafka.close()
