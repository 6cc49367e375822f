"""What tests of the demo share."""

import threading
from collections.abc import Iterator

import pytest
from support.canned_replica import CannedReplica


@pytest.fixture
def canned_replica() -> Iterator[CannedReplica]:
    """A server in place of `stream-apple serve`, with a thread of its own."""
    with CannedReplica() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
