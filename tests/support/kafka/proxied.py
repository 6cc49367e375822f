"""One broker whose clients all come through a proxy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.kafka.broker import Broker
from support.kafka.proxy import Proxy
from support.ports import free_ports


@contextmanager
def proxied_broker(directory: Path, jars: Path) -> Iterator[tuple[Broker, Proxy]]:
    """Start the broker and its proxy; end both afterwards."""
    port, controller = free_ports(2)
    with Proxy(port) as proxy:
        listeners = {"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        broker = Broker(directory / "broker", jars, listeners, ports=(port, controller))
        broker.start()
        try:
            yield broker, proxy
        finally:
            broker.wake()
            broker.kill()
