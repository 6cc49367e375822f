"""The product's sizes made small, so that what takes many turns with large models does so with small ones."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from stream_apple.learners import state
from stream_apple.stream.following import replica
from stream_apple.stream.learning import scheduler
from stream_apple.stream.loop import loop
from stream_apple.stream.merging import committed_standings, leader, merging
from stream_apple.stream.snapshots import stored_messages, writer


@contextmanager
def small(block_bytes: int = 4_000) -> Iterator[None]:
    """For as long as the context lasts. None of these sizes decides about a result."""
    before = structlog.get_config()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "BLOCK_BYTES", block_bytes)
        patch.setattr(writer, "MOST_IN_FLIGHT", 700)
        patch.setattr(scheduler, "BATCH_BYTES", 300)
        patch.setattr(loop, "WORTH_SAVING", 3)
        patch.setattr(stored_messages, "_MESSAGES", 2)
        patch.setattr(replica, "UNDECIDED_S", 0.0)
        patch.setattr(leader, "POLL_S", 0.0)
        patch.setattr(leader, "LEAST_POLL_S", 0.0)
        patch.setattr(committed_standings, "ENDS_S", 0.0)
        patch.setattr(merging, "POLL_S", 0.0)
        patch.setattr(merging, "LEAST_POLL_S", 0.0)
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        try:
            yield
        finally:
            structlog.configure(**before)
