"""A table that is nearly full, without learning for as long as that takes."""

import numpy as np

from stream_apple.learners.apple.state.table import BUCKET, Table


def fill(table: Table, share: float, degree: int) -> None:
    """Monomials of this degree that nobody asks for, of next to no weight, in so many of the slots that are free."""
    draw, size = np.random.default_rng(1), len(table.slots) - 1
    chosen = np.flatnonzero((draw.random(size, np.float32) < share) & (table.slots["key"][:-1] == 0))
    keys = draw.integers(1 << 32, 1 << 63, len(chosen), dtype=np.uint64)
    buckets = chosen.astype(np.uint64) // np.uint64(BUCKET)
    mask = np.uint64((size // BUCKET - 1) << 8)
    keys = (keys & ~mask) | (buckets << np.uint64(8))
    table.slots["key"][chosen] = keys
    table.slots["weight"][chosen] = draw.random(len(chosen), np.float32) * np.float32(1e-6)
    table.slots["scale"][chosen] = 1.0
    table.slots["degree"][chosen] = degree
    table.tags.view(np.uint8)[chosen] = (keys & np.uint64(0xFF)).astype(np.uint8) | np.uint8(1)
