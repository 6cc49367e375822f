"""The votes of eight products at once, in SIMD vectors: what `admission.is_ahead` does for each of them in turn.

The code is written like that of `lanes.py`. Votes in one bucket depend on each other: if two of the eight products ask
in the same bucket, none of the eight votes here, and the caller lets them vote in turn.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numpy.typing import NDArray

from stream_apple.core.jit import Operand, instruction
from stream_apple.learners.apple.kernels.lane_writer import INTS, LANE_NUMBERS, WORDS, LaneWriter
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.work import LANES, Products

OWN_VOTE = np.uint8(4)
VOTES_TO_PASS = np.uint8(48)
IN_TURN = np.uint64(1) << np.uint64(LANES)
"""What `vote_at_once` returns if nobody has voted."""

_I1, _I8, _I16, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 64))
_BUCKETS_OF_A_WORD = 4  # buckets whose bytes fill 64 bits of the filter


def leave_to_turns(
    _admission_filter: NDArray[np.uint8], _products: Products, _end: Index, _asking: Index, _votes: np.uint8
) -> np.uint64:
    """Let none vote: interpreted code gains nothing by votes at once."""
    return IN_TURN


@instruction(leave_to_turns, types.uint64)
def vote_at_once(
    b: Operand, admission_filter: Operand, products: Operand, end: Operand, asking: Operand, votes: Operand
) -> Operand:
    """Let those of products [end, end + 8) vote whose bits are set in the byte `asking`; places are insertion points.

    Returns a byte whose bits say which of them pass; or IN_TURN if two ask in one bucket, in which case none has voted.
    """
    writer = LaneWriter(b)
    asks = b.bitcast(b.trunc(asking, _I8), ir.VectorType(_I1, LANES))
    keys, places = (writer.load(b.gep(array.data, [end]), WORDS) for array in (products.key, products.place))
    bucket = b.select(asks, b.lshr(places, writer.number(3)), writer.number(0))
    shared = _equal_lanes(writer, b.select(asks, bucket, b.not_(LANE_NUMBERS)))

    word = writer.gather(admission_filter, b.lshr(bucket, writer.number(2)))
    shift = b.shl(b.and_(bucket, writer.number(_BUCKETS_OF_A_WORD - 1)), writer.number(4))
    word = b.lshr(word, shift)
    there, count = b.and_(word, writer.number(0xFF)), b.and_(b.lshr(word, writer.number(8)), writer.number(0xFF))
    mark, none = b.lshr(keys, writer.number(56)), writer.number(0)
    own = writer.in_all(b.mul(votes, _I64(int(OWN_VOTE))))
    more = b.and_(b.add(count, own), writer.number(0xFF))
    votes = writer.in_all(votes)
    fewer = b.select(b.icmp_unsigned(">", count, votes), b.sub(count, votes), none)
    same = b.and_(b.icmp_unsigned("==", mark, there), b.icmp_unsigned(">", count, none))
    count = b.select(same, more, fewer)
    taken_over = b.icmp_unsigned("==", count, none)
    passes = b.icmp_unsigned(">=", count, writer.number(int(VOTES_TO_PASS)))
    count = b.select(passes, none, b.select(taken_over, own, count))
    value = b.or_(b.select(taken_over, mark, there), b.shl(count, writer.number(8)))

    # Eight stores without a branch: the lanes that do not vote write to memory that nobody reads.
    nowhere = b.ptrtoint(cgutils.alloca_once(b, _I16), _I64)
    voting = b.and_(asks, writer.in_all(b.not_(shared)))
    address = b.add(writer.in_all(b.ptrtoint(admission_filter.data, _I64)), b.shl(bucket, writer.number(1)))
    address = b.select(voting, address, writer.in_all(nowhere))
    for lane in range(LANES):
        pointer = b.inttoptr(b.extract_element(address, _I64(lane)), _I16.as_pointer())
        b.store(b.trunc(b.extract_element(value, _I64(lane)), _I16), pointer, align=1)
    passed = b.zext(b.bitcast(b.and_(passes, voting), _I8), _I64)
    return b.select(shared, _I64(int(IN_TURN)), passed)


def _equal_lanes(writer: LaneWriter, vector: Operand) -> Operand:
    """Return whether any two lanes are equal: each lane is compared with the next four, around the end."""
    b = writer.b
    narrow = b.trunc(vector, INTS)
    found = None
    for distance in range(1, LANES // 2 + 1):
        turned = writer.reordered(narrow, [(lane + distance) % LANES for lane in range(LANES)])
        equal = b.icmp_unsigned("==", narrow, turned)
        found = equal if found is None else b.or_(found, equal)
    return b.icmp_unsigned("!=", b.bitcast(found, _I8), _I8(0))
