"""Writes single values of msgpack, as `msgpack.packb` writes them, to arrays of bytes that have room for them."""

import numpy as np

from stream_apple.core.jit import routine
from stream_apple.records.message.msgpack_reader import ZERO, Bytes


@routine
def put(out: Bytes, to: int, tag: int, bits: np.uint64, size: int) -> int:
    """Write `tag` and the low `size` <= 8 bytes of `bits` after it, big-endian; return where they end."""
    out[np.uint64(to)] = tag
    for step in range(size):
        out[np.uint64(to + 1 + step)] = np.uint8(bits >> np.uint64(8 * (size - 1 - step)))
    return to + 1 + size


@routine
def put_integer(out: Bytes, to: int, size: np.uint64, negative: bool) -> int:  # noqa: FBT001
    """Write the integer `size`, or -`size` if it is negative, in the shortest form, as packers do; return its end."""
    if negative and size != ZERO:
        bits = ZERO - size
        if size <= np.uint64(32):
            return put(out, to, int(bits & np.uint64(0xFF)), ZERO, 0)
        if size <= np.uint64(1 << 7):
            return put(out, to, 0xD0, bits, 1)
        if size <= np.uint64(1 << 15):
            return put(out, to, 0xD1, bits, 2)
        if size <= np.uint64(1 << 31):
            return put(out, to, 0xD2, bits, 4)
        return put(out, to, 0xD3, bits, 8)
    if size < np.uint64(1 << 7):
        return put(out, to, int(size), ZERO, 0)
    if size < np.uint64(1 << 8):
        return put(out, to, 0xCC, size, 1)
    if size < np.uint64(1 << 16):
        return put(out, to, 0xCD, size, 2)
    if size < np.uint64(1 << 32):
        return put(out, to, 0xCE, size, 4)
    return put(out, to, 0xCF, size, 8)
