"""What signals do to a process, and to each of the commands that run until they are stopped."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.waiting import DEADLINE_S, wait_until

_TYING = "stream_apple.demo.parent_death_signal"

_PROGRAM = """
import os, signal, sys, threading, time
from stream_apple.signals import Signals
way = sys.argv[1]
with Signals(lambda: sys.exit(0), lambda first: print(f"told {first.name}", flush=True)) as signals:
    if way == "busy":
        signals.call(lambda: print("finishing", flush=True))
    if way == "reading":
        signals.call(lambda: None)
        silent, _ = os.pipe()
        print("ready", flush=True)
        print([*signals.until_first(iter(lambda: os.read(silent, 1), b""))], signals.exit_code, flush=True)
    if way == "signalled elsewhere":  # to a thread that is not the one that reads
        signals.call(lambda: sys.exit(3))
        number = signal.Signals(int(sys.argv[2]))
        other = threading.Thread(target=lambda: time.sleep(60), daemon=True)
        other.start()
        sender = threading.Timer(0.3, lambda: signal.pthread_kill(other.ident, number))
        sender.start()
        silent, _ = os.pipe()
        os.read(silent, 1)
    if way == "between items":
        signals.call(lambda: None)
        for item in signals.until_first(iter(range(1_000_000_000))):
            if item == 1000:
                print("ready", flush=True)
        print("stopping" if signals.stopping() else "not stopping", flush=True)
    if way in {"starting", "busy"}:
        print("ready", flush=True)
    time.sleep(60)
    time.sleep(60)
"""


@contextmanager
def started(way: str) -> Iterator[tuple["subprocess.Popen[str]", IO[str]]]:
    """A process that catches signals, once it says so, and its output."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, way], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process, process.stdout
        finally:
            process.kill()


@contextmanager
def command(*arguments: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """A command as a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")}
    with subprocess.Popen(
        [sys.executable, "-m", "stream_apple", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **settings},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def end_by_the_second(process: "subprocess.Popen[str]", first: signal.Signals, second: signal.Signals) -> None:
    """At the first signal it waits for what does not come; the kernel ends it at the second."""
    process.send_signal(first)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(second)
    assert process.wait(DEADLINE_S) == -second


class TestMechanism:
    """The first signal asks, the second ends."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_before_there_is_anything_to_finish(self, number: signal.Signals) -> None:
        """What was given at first is called: here, the process ends at once, and well."""
        with started("starting") as (process, output):
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == 0
            assert output.read() == f"told {number.name}\n"

    @pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
    @pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
    def test_the_second_ends_the_process(self, first: signal.Signals, second: signal.Signals) -> None:
        """The first is told to whoever finishes; the kernel ends the process at the second, whatever it is doing."""
        with started("busy") as (process, output):
            process.send_signal(first)
            assert [output.readline(), output.readline()] == [f"told {first.name}\n", "finishing\n"]
            assert process.poll() is None
            process.send_signal(second)
            assert process.wait(DEADLINE_S) == -second

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_silent_pipe_is_no_longer_read(self, number: signal.Signals) -> None:
        """A read that waits is ended by the first signal; the second ends the process."""
        with started("reading") as (process, output):
            time.sleep(0.2)
            process.send_signal(number)
            assert [output.readline(), output.readline()] == [f"told {number.name}\n", f"[] {128 + number}\n"]
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == -number

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_call_that_the_signal_did_not_interrupt(self, number: signal.Signals) -> None:
        """A signal just before a call, or to another thread, is handled all the same, before the call returns."""
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "signalled elsewhere", str(int(number))],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, f"told {number.name}\n", "")

    def test_items_end_with_the_first(self) -> None:
        """Also if reading never waits."""
        with started("between items") as (process, output):
            process.send_signal(signal.SIGTERM)
            assert [output.readline(), output.readline()] == ["told SIGTERM\n", "stopping\n"]


class TestServices:
    """Commands that work until they are stopped."""

    @pytest.mark.parametrize(
        ("name", "number"),
        [("run", signal.SIGTERM), ("run", signal.SIGINT), ("join", signal.SIGTERM), ("serve", signal.SIGTERM)],
    )
    def test_one_that_still_starts_ends_well(self, name: str, number: signal.Signals) -> None:
        """The exit code is 0; one event tells the reason, and one the end."""
        with socket.create_server(("127.0.0.1", 0)) as silent_broker:
            address = f"127.0.0.1:{silent_broker.getsockname()[1]}"
            ports = {"STREAM_APPLE_HTTP__PORT": "0", "STREAM_APPLE_SERVE__PORT": "0"}
            settings = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": address, **ports}
            with command(name, "--log-format", "json", **settings) as worker:
                silent_broker.settimeout(DEADLINE_S)
                silent_broker.accept()[0].close()
                worker.send_signal(number)
                _, events = worker.communicate(timeout=DEADLINE_S)
        assert worker.returncode == 0, events
        assert events.count('"event": "stop_requested"') == 1
        assert events.count('"event": "stopped"') == 1
        assert f'"signal": "{number.name}"' in events


_IN_A_CONSTRUCTOR = """
import signal
from stream_apple.adapters.kafka import broker
from stream_apple.cli import main

def constructor_in_c(*_):
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException:
        raise TypeError("expected configuration property name as type unicode string")

broker.open_clients = constructor_in_c
main(["run", "--log-format", "json"])
"""


def test_a_worker_that_makes_its_clients_ends_well() -> None:
    """A constructor in C makes an error of its own of whatever comes up in it: the exit code is 0 all the same."""
    settings = {"STREAM_APPLE_HTTP__PORT": "0", "STREAM_APPLE_HTTP__HOST": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CONSTRUCTOR],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"event": "stop_requested"' in done.stderr


@pytest.fixture
def ending_cluster() -> Iterator[MockCluster]:
    """A cluster with the topic `examples`, to be stopped by the test."""
    with MockCluster() as cluster:
        make_mock_topics(cluster.bootstrap, "examples")
        yield cluster


class TestSending:
    """`generate` and `produce`."""

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_generate_ends_well(self, mock_examples: str, number: signal.Signals) -> None:
        """The first signal waits for what was sent, says how much that is, and ends with 0."""
        with command("generate", STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=mock_examples) as generate:
            assert generate.stderr is not None
            assert generate.stderr.readline().startswith("sending 1000 examples a second to examples over 4")
            time.sleep(0.5)
            generate.send_signal(number)
            _, told = generate.communicate(timeout=DEADLINE_S)
        assert generate.returncode == 0
        assert told.startswith("sent ")

    def test_the_second_does_not_wait_for_what_generate_has_sent(self, ending_cluster: MockCluster) -> None:
        """With a cluster that has gone, the first signal waits and the second ends the process."""
        with command("generate", STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS=ending_cluster.bootstrap) as generate:
            assert generate.stderr is not None
            generate.stderr.readline()
            ending_cluster.stop()
            time.sleep(0.5)
            end_by_the_second(generate, signal.SIGINT, signal.SIGTERM)

    def test_the_second_does_not_wait_for_what_produce_has_sent(
        self, ending_cluster: MockCluster, tmp_path: Path
    ) -> None:
        """With a cluster that has gone, the first signal waits and the second ends the process."""
        rows = tmp_path / "rows"
        rows.write_text("1 1:1\n" * 1000)
        options = ("--rate", "100/s", "--bootstrap-servers", ending_cluster.bootstrap)
        with command("produce", str(rows), *options) as produce:

            def connected() -> bool:
                assert produce.poll() is None, produce.communicate()
                return bool(psutil.Process(produce.pid).net_connections("tcp"))

            wait_until(connected, "a connection")
            time.sleep(1.0)
            ending_cluster.stop()
            time.sleep(0.5)
            end_by_the_second(produce, signal.SIGINT, signal.SIGTERM)


def test_the_second_does_not_wait_for_the_worker_of_the_demo(tmp_path: Path) -> None:
    """While the demo waits for its worker to stop, a second signal ends it; the worker hears of its parent's death."""
    with command("demo", TMPDIR=str(tmp_path)) as demo:

        def workers() -> list[psutil.Process]:
            children = psutil.Process(demo.pid).children()
            return [each for each in children if "run" in each.cmdline() and _TYING not in each.cmdline()]

        # Its handlers are in place by then: a kernel may end a suspended process that has none.
        assert demo.stdout is not None
        assert any(line.startswith("status page: ") for line in demo.stdout)
        (worker,) = workers()
        worker.suspend()
        try:
            end_by_the_second(demo, signal.SIGTERM, signal.SIGHUP)
        finally:
            # The kernel itself may have resumed it, when its process group lost its last parent.
            with suppress(psutil.NoSuchProcess):
                worker.resume()
                if sys.platform != "linux":
                    worker.kill()
        assert psutil.wait_procs([worker], timeout=DEADLINE_S)[1] == []
