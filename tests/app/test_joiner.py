"""What a joiner does before it takes its port."""

from typing import Any

import pytest

from stream_apple.app import joiner
from stream_apple.config import load


class PortTakenError(Exception):
    """The joiner has come to its port."""


def test_records_may_be_as_large_as_the_limits_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer's queue has room for their dead letters, as a worker's has, unless the user bounds it."""

    def listen(*_: object) -> None:
        raise PortTakenError

    monkeypatch.setattr(joiner, "listen", listen)
    environ = {
        "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "STREAM_APPLE_LIMITS__MAX_RECORD_BYTES": "100000000",
    }
    signals: Any = None
    with pytest.raises(PortTakenError):
        joiner.join_until_stopped(load(None, environ), signals)
