"""`serve` under load: `python tests/bench/serving.py [RATE [LEARNED]]`.

1,000 requests a second of one instance each while the replica learns 20,000 examples a second, 57 features in each;
then requests of a hundred instances, one after another. The real server and the real replica, pinned to one core, on a
log in memory; who asks has the other. Requests are sent when they are due, answered or not, and times are counted from
then. Yardsticks in the same run: the same server with a constant answer, the same with nothing to learn, and
`vw --daemon`, which learns nothing meanwhile.
"""

import asyncio
import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import planted
import uvloop
import vowpalwabbit
from feeds.paced_log import PacedLogs
from report import figure, header
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.child_process import start_child
from support.ports import free_ports

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.serve import settings_digest
from stream_apple.app.service import SWITCH_S, spare_the_collector
from stream_apple.config import load
from stream_apple.http.listener import listen
from stream_apple.http.server import SERVING, HttpServer
from stream_apple.http.serving.answering import Answering
from stream_apple.http.serving.application import Application
from stream_apple.http.serving.bodies import Bodies
from stream_apple.http.serving.questions import Questions
from stream_apple.monitoring.serving_metrics import ServingMetrics
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.following.replicas import Replicas
from stream_apple.stream.model.instances import InstanceReader
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.walk.sources import Sources

RATE, LEARNED = 1_000, 20_000
SECONDS, WARM_S, CONNECTIONS, BATCH, ROUNDS = 10.0, 4.0, 16, 100, 3
PAYLOADS = 20_000
SERVER_CORE, CLIENT_CORE = 0, 1
PATH = "/v1/models/bench:predict"


class Times(NamedTuple):
    """Percentiles of the time to an answer, in milliseconds, and how many there were a second."""

    p50: float
    p99: float
    rate: float


def sample(count: int) -> list[tuple[int, dict[str, float]]]:
    """Labels and features of the planted stream."""
    return [
        (label, {f"f{number}": 1.0 for number in present.tolist()})
        for label, present in planted.examples(count, seed=3)
    ]


def serve(kind: str, port: int, learned: float) -> None:
    """Be the server: `replica`, or `constant` for the same with a constant answer."""
    os.sched_setaffinity(0, {SERVER_CORE})
    sys.setswitchinterval(SWITCH_S)
    listener = listen("127.0.0.1", port)
    if kind == "constant":
        content = b'{"predictions":[{"prediction":-0.123456789012345,"probability":0.4567890123456789}]}'

        async def answer(request: Request) -> Response:
            await request.body()
            return Response(content, media_type="application/json")

        constant = Starlette(routes=[Route("/v1/models/{name}:predict", answer, methods=["POST"])])
        with HttpServer(constant, listener, SERVING) as server:
            server.wait()
        return
    config = load(None, {"STREAM_APPLE_WORKER__GROUP": "bench", "STREAM_APPLE_LEARNER__LOSS": "logistic"})
    settings, provenance = settings_of(config), Provenance.of(config)
    payloads = [encode_example(Example(label, 1.0, None, features)) for label, features in sample(PAYLOADS)]
    logs = PacedLogs(provenance, payloads, learned)
    sources = Sources(logs, provenance, model_factory("examples", settings, settings.decoder()), 1_000)
    warm_up(settings, settings.decoder())
    metrics, reader = ServingMetrics(), InstanceReader(settings)
    replicas = Replicas(sources, [0], "log", 10.0, metrics)
    metrics.watch(replicas)
    answering = Answering(replicas, reader, settings_digest(provenance), lambda *_: 0)
    application = Application(
        "bench", answering, Questions(1_000, mapped=False), Bodies(4_000_000, 64_000_000), metrics, settings.options
    )
    spare_the_collector()
    with replicas:
        logs.start()
        with HttpServer(application.asgi(), listener, SERVING) as server:
            server.wait()


def request_of(instances: Sequence[Mapping[str, object]]) -> bytes:
    """A request of HTTP."""
    body = json.dumps({"instances": instances}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    return head.encode() + b"\r\n" + body


async def http_answer(reader: asyncio.StreamReader) -> None:
    """Read one answer of HTTP; it must be a good one."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head + await reader.read(500)
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(size)


async def vw_answer(reader: asyncio.StreamReader) -> None:
    """Read one answer of `vw --daemon`."""
    await reader.readline()


Answer = Callable[[asyncio.StreamReader], Awaitable[None]]


async def ask(port: int, requests: list[bytes], rate: float, answer: Answer) -> Times:
    """Ask at a steady pace, whether there are answers or not."""
    connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        connections.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    times: list[float] = []

    async def one(due: float, request: bytes) -> None:
        connection = await connections.get()
        connection[1].write(request)
        await answer(connection[0])
        times.append(time.perf_counter() - due)
        connections.put_nowait(connection)

    tasks, began = set(), time.perf_counter()
    for number in range(int(SECONDS * rate)):
        due = began + number / rate
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        task = asyncio.create_task(one(due, requests[number % len(requests)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    seconds = time.perf_counter() - began
    times.sort()
    return Times(1e3 * statistics.median(times), 1e3 * times[int(0.99 * len(times))], len(times) / seconds)


async def flood(port: int, requests: list[bytes], answer: Answer) -> float:
    """Ask on two connections, one request after another on each; how many are answered a second."""
    counts = 0

    async def run() -> None:
        nonlocal counts
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number, ends = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < ends:
            writer.write(requests[number % len(requests)])
            await answer(reader)
            number += 1
            counts += 1
        writer.close()

    await asyncio.gather(run(), run())
    return counts / SECONDS


def wait_for(port: int) -> None:
    """Wait until somebody listens, and has warmed up."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            time.sleep(WARM_S)
            return
    raise AssertionError("expected a server, found none")


def learned_by(port: int) -> float:
    """Examples that the replica has learned so far."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /v1/models/bench HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    return float(json.loads(reply.partition(b"\r\n\r\n")[2])["partitions"][0]["offset"])


def measure(name: str, kind: str, rate: float, learned: float) -> None:
    """Start a server, ask it, and print what comes of it."""
    (port,) = free_ports(1)
    asked = [{"features": features} for _, features in sample(500)]
    single = [request_of([each]) for each in asked]
    many = [request_of(asked[at : at + BATCH]) for at in range(0, len(asked), BATCH)]
    log = Path(tempfile.mkdtemp()) / "server.log"
    child = start_child([sys.executable, __file__, "--serve", kind, str(port), str(learned)], log)
    try:
        wait_for(port)
        found = [uvloop.run(ask(port, single, rate, http_answer)) for _ in range(ROUNDS)]
        p50 = figure(f"{name}, p50", [each.p50 for each in found], "ms")
        p99 = figure(f"{name}, p99", [each.p99 for each in found], "ms")
        print(f"{name}: {rate:,.0f} requests/s: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        began, before = time.monotonic(), learned_by(port) if kind == "replica" else 0
        batches = [uvloop.run(flood(port, many, http_answer)) for _ in range(ROUNDS)]
        scored = figure(f"{name}, batches", [each * BATCH for each in batches], "predictions/s")
        told = (
            f", {(learned_by(port) - before) / (time.monotonic() - began):,.0f} learned/s" if kind == "replica" else ""
        )
        print(f"{name}: batches of {BATCH}: {scored:,.0f} predictions/s{told}", flush=True)
    except BaseException:
        print(log.read_text()[-2000:])
        raise
    finally:
        child.kill()
        child.wait()


def serve_vw(port: int) -> None:
    """Be `vw --daemon`, whose model has learned nothing, and which is only asked: a process for each connection."""
    os.sched_setaffinity(0, {SERVER_CORE})
    settings = f"--daemon --foreground --num_children {CONNECTIONS} -t --port {port} -b 18 --loss_function logistic"
    vowpalwabbit.Workspace(arg_list=[*settings.split(), "-q", "ff", "--quiet"]).run_parser()


def measure_vw(rate: float) -> None:
    """The same with `vw --daemon`."""
    (port,) = free_ports(1)
    lines = [f"|f {' '.join(features)}\n".encode() for _, features in sample(500)]
    log = Path(tempfile.mkdtemp()) / "vw.log"
    child = start_child([sys.executable, __file__, "--vw", str(port)], log)
    try:
        wait_for(port)
        found = [uvloop.run(ask(port, lines, rate, vw_answer)) for _ in range(ROUNDS)]
        p50 = figure("vw --daemon, p50", [each.p50 for each in found], "ms")
        p99 = figure("vw --daemon, p99", [each.p99 for each in found], "ms")
        print(f"vw --daemon: {rate:,.0f} requests/s: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def main() -> None:
    """All of it."""
    given = [float(each) for each in sys.argv[1:3]]
    rate, learned = (given + [RATE, LEARNED][len(given) :])[:2]
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(header("numba", "numpy", "vowpalwabbit", "uvicorn", "starlette", "msgspec", "uvloop"))
    measure("constant answer", "constant", rate, 0)
    measure("nothing to learn", "replica", rate, 1)
    measure(f"learning {learned:,.0f}/s", "replica", rate, learned)
    measure_vw(rate)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    elif sys.argv[1:2] == ["--vw"]:
        serve_vw(int(sys.argv[2]))
    else:
        main()
