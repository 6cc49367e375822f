"""What the HTTP port costs a worker that learns: `python tests/bench/scraping.py [SECONDS]`.

The worker's loop learns from a recorded feed on two threads, in turns of SECONDS (0.5) with and without clients: one
scrapes `/metrics` ten times a second, and one sends a head a byte at a time and never ends it. Printed is the share of
the examples a second that they cost, the share of a core that the server's thread uses meanwhile, which other processes
do not disturb, and how long a scrape takes. The server is the worker's own, in the worker's
process; the clients are a process of their own.
"""

import logging
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import psutil
import structlog
import turns
from feeds.recorded_feed import RecordedFeed
from report import figure, header
from support.local_http import fetch
from support.records import FakeRecord
from turns import EPOCH_MS, PARTITIONS, START_MS, Life

from stream_apple.app.model_factories import settings_of
from stream_apple.app.service import SWITCH_S
from stream_apple.config import load
from stream_apple.http.application import read_only, routes
from stream_apple.http.listener import listen
from stream_apple.http.server import HttpServer
from stream_apple.monitoring.health import Health
from stream_apple.records.message.decode import Decoder
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.warmup import warm_up

ROUNDS = 31
CLIENTS = """
import socket, sys, time, urllib.request
port, scrapes_a_second = map(int, sys.argv[1:])
def connect():
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: a\\r\\nX-Slow: ")
    return peer
slow = connect()
while True:
    due = time.monotonic() + 1 / scrapes_a_second
    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
    try:
        slow.send(b"a")
    except OSError:
        slow = connect()
    time.sleep(max(0.0, due - time.monotonic()))
"""


def records() -> Iterator[Sequence[Record]]:
    """Those of `turns`, all of one moment: no epoch ends, so that each turn does the same."""
    for batch in turns.records():
        yield [FakeRecord(each.partition(), each.offset(), each.value(), START_MS) for each in batch]


def rate(life: Life, seconds: float) -> float:
    """Examples a second that the loop learns."""
    before, began = sum(each.sent_offset for each in life.owned), time.perf_counter()
    while time.perf_counter() - began < seconds:
        life.turn()
    return (sum(each.sent_offset for each in life.owned) - before) / (time.perf_counter() - began)


def server_s() -> float:
    """Seconds of the processor that the server's thread has used."""
    (number,) = [each.native_id for each in threading.enumerate() if each.name == "http"]
    return float(sum(each.user_time + each.system_time for each in psutil.Process().threads() if each.id == number))


def main() -> None:
    """Learn with clients and without, in turns."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(header("numba", "numpy", "uvicorn", "starlette", "prometheus-client"))
    config = load(None, {"STREAM_APPLE_EPOCHS__LENGTH": f"{EPOCH_MS}ms"})
    warm_up(settings_of(config), Decoder(settings_of(config).limits))
    turns.SNAPSHOT_S = 3_600.0
    life = Life(config, RecordedFeed(records(), PARTITIONS))
    application = read_only(routes(Health(), life.metrics.registry))
    sys.setswitchinterval(SWITCH_S)
    with HttpServer(application, listen("127.0.0.1", 0)) as server:
        rate(life, 5.0)
        alone, beside, shares = [], [], []
        for _ in range(ROUNDS):
            alone.append(rate(life, seconds))
            clients = subprocess.Popen([sys.executable, "-c", CLIENTS, str(server.port), "10"])
            rate(life, 0.3)
            used, began = server_s(), time.perf_counter()
            beside.append(rate(life, seconds))
            shares.append(100 * (server_s() - used) / (time.perf_counter() - began))
            clients.kill()
            clients.wait()
        scrapes = []
        for _ in range(5):
            began = time.perf_counter()
            size = len(fetch(server.port, "/metrics").body)
            scrapes.append(1e3 * (time.perf_counter() - began))
            time.sleep(0.6)
    lost = [100 * (1 - with_clients / without) for without, with_clients in zip(alone, beside, strict=True)]
    cost = figure("cost of the clients", lost, "%")
    share = figure("the server's thread", [statistics.mean(shares)], "% of a core", ROUNDS)
    figure("learned alone", alone, "examples/s")
    figure("a scrape", scrapes, "ms")
    print(
        f"{statistics.median(alone):,.0f} examples/s alone, {statistics.median(beside):,.0f} with clients: "
        f"{cost:.1f} % less (from {min(lost):.1f} to {max(lost):.1f}); the server's thread uses {share:.1f} % of "
        f"a core; a scrape of {size / 1e3:.0f} kB takes "
        f"{statistics.median(scrapes):.1f} ms"
    )
    life.loop.drain()
    life.loop._learning.close()


if __name__ == "__main__":
    main()
