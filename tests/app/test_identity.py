"""Who a worker is on its machine: names that are free, a lock that dies with its holder, and words about both."""

import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

import pytest

from stream_apple.app import identity
from stream_apple.config import Config, load
from stream_apple.errors import BrokerError, ConfigurationError, FencedError

_HOLD = """
import sys
from stream_apple.app import identity
from stream_apple.config import load
config = identity.named(load(None))
identity.hold(config, "a cluster")
print(config.worker.id, flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that holds an identity until it is killed."""

    def __init__(self, group: str, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "STREAM_APPLE_WORKER__GROUP": group, "STREAM_APPLE_WORKER__ID": name},
        )
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """As the kernel does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def group() -> Iterator[str]:
    """Of nobody else; what this process holds for it is given back."""
    before = len(identity._held)
    yield f"group-{uuid.uuid4().hex}"
    while len(identity._held) > before:
        identity._held.pop().close()


@pytest.fixture(autouse=True)
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this process takes, it gives back."""
    taken: list[socket.socket] = []
    monkeypatch.setattr(identity, "_held", taken)
    yield
    for lock in taken:
        lock.close()


def config(group: str, name: str = "") -> Config:
    """Of a worker."""
    return load(None, {"STREAM_APPLE_WORKER__GROUP": group, "STREAM_APPLE_WORKER__ID": name})


class TestNames:
    """Automatic ones."""

    def test_the_lowest_that_is_free(self, group: str) -> None:
        """Each process has another; who starts again has the one that its predecessor had."""
        with ExitStack() as started:
            holders = [started.enter_context(Holder(group, "")) for _ in range(3)]
            host = identity.first_name().removesuffix("-0")
            assert [holder.name for holder in holders] == [f"{host}-{number}" for number in range(3)]
            holders[1].kill()
            assert started.enter_context(Holder(group, "")).name == f"{host}-1"

    def test_groups_do_not_know_one_another(self, group: str) -> None:
        """Another group's first worker is the first of it."""
        with Holder(group, ""):
            assert identity.named(config(f"{group}-other")).worker.id == identity.first_name()

    def test_a_name_that_is_set_stays(self, group: str) -> None:
        """However often."""
        for _ in range(2):
            assert identity.named(config(group, "pod-3")).worker.id == "pod-3"

    @pytest.mark.parametrize("host", ["box", "a.b-c_d", "büro 1", "h" * 300, ""])
    def test_every_host_has_a_name_that_kafka_takes(
        self, group: str, host: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the configuration would refuse is replaced, or cut off."""
        monkeypatch.setattr(socket, "gethostname", lambda: host)
        name = identity.named(config(group)).worker.id
        assert re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", name)
        assert config(group, name).worker.id == name


class TestLock:
    """One process of an identity on a machine."""

    def test_the_second_is_told_who_is_first(self, group: str) -> None:
        """With its pid, and what to type; when that one has been killed, there is room at once."""
        with Holder(group, "one") as holder:
            for _ in range(3):
                with pytest.raises(ConfigurationError) as caught:
                    identity.hold(config(group, "one"), "a cluster")
                assert str(caught.value) == (
                    f"worker.id: expected no other process on this machine that works as one of group {group}, found "
                    f"pid {holder.process.pid}, which goes on undisturbed. To work beside it, set "
                    f"STREAM_APPLE_WORKER__ID=one-2, or STREAM_APPLE_WORKER__ID= for an automatic name; to replace it, "
                    f"stop it first"
                )
            holder.kill()
            identity.hold(config(group, "one"), "a cluster")

    def test_others_are_others(self, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another id, another group, another cluster, another machine."""
        with Holder(group, "one"):
            identity.hold(config(group, "two"), "a cluster")
            identity.hold(config(f"{group}-b", "one"), "a cluster")
            identity.hold(config(group, "one"), "another cluster")
            monkeypatch.setattr(identity, "MACHINE", "another")
            identity.hold(config(group, "one"), "a cluster")

    def test_groups_and_names_that_make_one_transactional_id(self, group: str) -> None:
        """Kafka would fence the first by the second."""
        with Holder(f"{group}-a", "b"), pytest.raises(ConfigurationError, match="found pid"):
            identity.hold(config(group, "a-b"), "a cluster")

    def test_a_holder_that_can_not_be_seen(self, group: str) -> None:
        """One that does not tell who it is, as of another namespace of processes: refused all the same."""
        one = config(group, "one")
        identity.hold(one, "a cluster")
        identity._held[0].listen(0)
        with ExitStack() as opened:
            for _ in range(3):  # more than its queue holds
                line = opened.enter_context(socket.socket(socket.AF_UNIX))
                line.settimeout(0)
                line.connect_ex(identity._held[0].getsockname())
            with pytest.raises(ConfigurationError, match="found one that can't be seen from here, which goes on"):
                identity.hold(one, "a cluster")


class TestWords:
    """What a worker says that was fenced."""

    def test_another_process(self, group: str) -> None:
        """Whose id it is, and which setting to change."""
        found = identity.explained(FencedError("commit: no (_FENCED)"), config(group, "one"), 0.3)
        assert (type(found), found.exit_code) == (FencedError, 75)
        assert str(found).startswith(
            f"worker.id one of group {group} (transactional id {group}-one) belongs to another process now"
        )
        assert "set worker.id (STREAM_APPLE_WORKER__ID) in one of the two" in str(found)
        assert "(commit: no (_FENCED))" in str(found)

    @pytest.mark.parametrize(("limit", "open_s"), [(None, 46.0), ("10000", 11.0)])
    def test_a_process_that_was_frozen(self, group: str, limit: str | None, open_s: float) -> None:
        """The brokers have fenced it: a restart mends that."""
        settings = {} if limit is None else {"STREAM_APPLE_KAFKA__TRANSACTION_TIMEOUT_MS": limit}
        frozen = load(None, {"STREAM_APPLE_WORKER__GROUP": group, "STREAM_APPLE_WORKER__ID": "one", **settings})
        found = identity.explained(FencedError("commit: no (_FENCED)"), frozen, open_s)
        assert (type(found), found.exit_code) == (BrokerError, 69)
        assert "transaction.timeout.ms" in str(found)
