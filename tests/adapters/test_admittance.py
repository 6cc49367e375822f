"""Which complaints of Kafka's client mean that waiting is vain."""

import socket

import pytest
from confluent_kafka import KafkaError
from kafka_broker import free_ports

from stream_apple.adapters.admittance import complaint, is_refusal


@pytest.mark.parametrize(
    ("code", "text", "refused"),
    [
        (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", True),
        (KafkaError._SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed", True),
        (KafkaError._TRANSPORT, "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required", True),
        (KafkaError._TRANSPORT, "error:0A000412:SSL routines::ssl/tls alert bad certificate: alert number 42", True),
        (KafkaError._SSL, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", False),
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9092 failed: Connection refused", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", False),
    ],
)
def test_a_refusal_is_told_from_an_outage(code: int, text: str, refused: bool) -> None:  # noqa: FBT001  a table's column
    """Who is refused must be mended by a person; a broker that is away, or going away, comes back."""
    assert is_refusal(KafkaError(code, text)) is refused


def test_nobody_listens() -> None:
    """There is something to tell, and it is no refusal."""
    found = complaint({"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    assert found is not None
    assert not is_refusal(found)


def test_somebody_listens_and_is_silent() -> None:
    """As a broker that has stopped in its tracks: no verdict, and no endless wait for one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = complaint({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
    assert found is None or not is_refusal(found)
