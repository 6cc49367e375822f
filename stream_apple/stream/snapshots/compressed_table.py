"""The table of a model that is only merged: the compressed blocks of its snapshot, decoded one at a time."""

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.merging.stacks import copy_into
from stream_apple.learners.apple.new_model import extent_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import (
    Table,
    blocks_of,
    empty_block,
    empty_table,
    taken_count,
)
from stream_apple.learners.state import bytes_of_rows
from stream_apple.stream.snapshots.blocks import decode_block, decompressed


class CompressedTable:
    """A `ReadableTable` that keeps the frames in a snapshot's messages; it is whole after `finish`."""

    def __init__(self, options: Options) -> None:
        self._bits = int(options.bits or 0)
        self._extent = extent_of(options)
        self._memory: Table | None = empty_block(self._bits, self._extent)
        self._block = len(self._memory.slots) - 1
        self._frames: list[bytes] = []
        self._nominees: list[NDArray[np.int64]] = []
        self._most_taken = 0
        self._constant: Table | None = None

    def add(self, frame: bytes, data: bytes) -> Table:
        """Keep the next frame, given its content, too; return the block, until the next one comes."""
        assert self._memory is not None
        block = self._memory.part(0, self._block)
        decode_block(data, block.rows, 0, len(block.tags))
        self._nominees.append(block.nominees() + self._block * len(self._frames))
        self._most_taken = max(self._most_taken, taken_count(block))
        self._frames.append(frame)
        return block

    def finish(self, table: Table) -> None:
        """Keep the constant of this table; nothing else of it is looked at."""
        last = len(table.slots) - 1
        self._constant = table.part(last, last + 1).copy()
        self._memory = None

    def nominees(self) -> NDArray[np.int64]:
        """Return the slots of parents that became so since the last merge, int64[k], ascending."""
        return np.concatenate(self._nominees)

    def most_taken(self) -> int:
        """Return how many slots are taken in the block in which most are."""
        return self._most_taken

    def part(self, start: int, stop: int, memory: Table) -> Table:
        """Return a block, decoded to this memory, or the constant's slot."""
        if start == 1 << self._bits:
            assert self._constant is not None
            return self._constant
        block = memory.part(0, stop - start)
        self._decode(start // self._block, block)
        return block

    def copy(self) -> Table:
        """Return a copy of the whole table."""
        assert self._constant is not None
        table, last = empty_table(self._bits, self._extent), 1 << self._bits
        for number, (start, stop) in enumerate(blocks_of(table)):
            self._decode(number, table.part(start, stop))
        copy_into(table.part(last, last + 1), self._constant)
        return table

    def _decode(self, number: int, block: Table) -> None:
        rows, size = block.rows, len(block.tags)
        decode_block(decompressed(self._frames[number], bytes_of_rows(rows, 0, size)), rows, 0, size)
