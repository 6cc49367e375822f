"""A model that is only merged: the compressed blocks of its snapshot, decoded one at a time."""

from stream_apple.core.named_arrays import NamedArrays
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import Rows, bytes_of_rows, room_for_block
from stream_apple.stream.snapshots.blocks import decode_block, decompressed


class CompressedModel:
    """A `ReadableModel` that keeps the frames in a snapshot's messages.

    like  rows of such a model; their content does not matter

    sums  all of the mergeable part except its rows, once `finish` has been called
    """

    def __init__(self, options: LearnerOptions, like: Rows) -> None:
        self.options = options
        self.sums: NamedArrays = {}
        self._memory = room_for_block(like)
        self._size = len(next(iter(self._memory.values())))
        self._frames: list[bytes] = []

    def add(self, frame: bytes, data: bytes) -> Rows:
        """Keep the next block's frame, given its content, too; return the block, until the next one comes."""
        self._frames.append(frame)
        decode_block(data, self._memory, 0, self._size)
        return self._memory

    def finish(self, sums: NamedArrays) -> None:
        """Take the rest of the mergeable part, when all blocks have been added."""
        self.sums = sums

    def read(self, start: int, stop: int, memory: Rows) -> Rows:
        """Return a block, decoded to this memory."""
        frame, size = self._frames[start // self._size], stop - start
        decode_block(decompressed(frame, bytes_of_rows(memory, 0, size)), memory, 0, size)
        return {name: array[:size] for name, array in memory.items()}
