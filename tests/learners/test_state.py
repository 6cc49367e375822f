"""States as rows and sums: how rows are cut into blocks."""

from typing import Any

import numpy as np
import pytest

from stream_apple.learners.state import block_bounds, room_for_block

SLOT = np.dtype([("key", np.uint64), ("weight", np.float32), ("degree", np.uint8)])


def rows_of(count: int) -> dict[str, Any]:
    """Rows of two arrays, whose elements are not alike."""
    slots = np.zeros((count, 3), SLOT)
    slots["key"] = np.arange(3 * count).reshape(count, 3)
    slots["weight"] = 0.5
    return {"slots": slots, "tags": np.arange(count, dtype=np.uint64)}


def test_there_is_room_for_the_largest_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the memory are those of a block, of the same kinds, and zeros."""
    monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 400)
    rows = rows_of(21)
    assert block_bounds(rows) == [(0, 8), (8, 16), (16, 21)]
    room = room_for_block(rows)
    assert {name: (array.dtype, array.shape) for name, array in room.items()} == {
        "slots": (SLOT, (8, 3)),
        "tags": (np.dtype(np.uint64), (8,)),
    }
    assert not any(array.view(np.uint8).any() for array in room.values())
