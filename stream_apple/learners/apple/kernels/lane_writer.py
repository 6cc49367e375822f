"""LLVM instructions that work on eight numbers at once, for `lanes.py`, `vote_lanes.py` and `class_lanes.py`."""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import Operand
from stream_apple.learners.apple.state.table import HIGHS, ONES
from stream_apple.learners.apple.state.work import LANES

_INT, _WORD = ir.IntType(32), ir.IntType(64)
INTS, WORDS, FLOATS, DOUBLES = (ir.VectorType(kind, LANES) for kind in (_INT, _WORD, ir.FloatType(), ir.DoubleType()))
"""The types of eight numbers: of 32 and 64 bits, float32 and float64."""
LANE_NUMBERS = ir.Constant(WORDS, list(range(LANES)))
_NAMES = {WORDS: "i64", FLOATS: "f32", DOUBLES: "f64"}  # of a lane, in the names of LLVM's functions
_BITS_TOO_LARGE = int(TOO_LARGE.view(np.uint32))


class LaneWriter:
    """Emits LLVM instructions that work on all lanes at once."""

    def __init__(self, builder: Operand) -> None:
        self.b = builder

    def in_all(self, value: Operand) -> Operand:
        """Return a vector with the scalar `value` in each lane."""
        nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
        return self.reordered(self.b.insert_element(nothing, value, _INT(0)), [0] * LANES)

    def reordered(self, vector: Operand, lanes: list[int]) -> Operand:
        """Return a vector whose lanes are these of `vector`."""
        return self.b.shuffle_vector(vector, vector, ir.Constant(INTS, lanes))

    def number(self, number: int) -> ir.Constant:
        """Return a vector of 64-bit integers with `number` in each lane."""
        return ir.Constant(WORDS, [number] * LANES)

    def call(self, name: str, result: Operand, *arguments: Operand) -> Operand:
        """Call the intrinsic function `llvm.NAME` of LLVM."""
        form = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.b.call(cgutils.get_or_insert_function(self.b.module, form, f"llvm.{name}"), arguments)

    def load(self, address: Operand, kind: Operand, valid: Operand = None) -> Operand:
        """Load eight numbers; lanes that are not `valid` are 0, and their memory is not read. None: all are valid."""
        source = self.b.bitcast(address, kind.as_pointer())
        if valid is None:
            return self.b.load(source, align=4)
        zeros = ir.Constant(kind, None)
        return self.call(f"masked.load.v{LANES}{_NAMES[kind]}.p0", kind, source, _INT(4), valid, zeros)

    def store(self, value: Operand, address: Operand, valid: Operand = None) -> None:
        """Store eight numbers, or those of them that are `valid`."""
        place = self.b.bitcast(address, value.type.as_pointer())
        if valid is None:
            self.b.store(value, place, align=4)
        else:
            name = f"masked.store.v{LANES}{_NAMES[value.type]}.p0"
            self.call(name, ir.VoidType(), value, place, _INT(4), valid)

    def gather(self, array: Operand, at: Operand) -> Operand:
        """Load the 64-bit words of the array's memory with these numbers; all have to be in the array.

        It loads them lane by lane: on AMD's processors up to Zen 5 the instruction for all lanes takes longer.
        """
        words, found = self.b.bitcast(array.data, _WORD.as_pointer()), ir.Constant(WORDS, ir.Undefined)
        for lane in range(LANES):
            address = self.b.gep(words, [self.b.extract_element(at, _INT(lane))])
            found = self.b.insert_element(found, self.b.load(address, align=8), _INT(lane))
        return found

    def zero_bytes(self, words: Operand) -> Operand:
        """Return words with the high bit set in the lowest byte that is zero, and perhaps in higher ones."""
        below = self.b.sub(words, self.number(int(ONES)))
        return self.b.and_(self.b.and_(below, self.b.not_(words)), self.number(int(HIGHS)))

    def is_feature(self, xs: Operand) -> Operand:
        """Return for each lane whether its number is not 0, NaN, or TOO_LARGE in size, by one comparison of bits."""
        size = self.b.and_(self.b.bitcast(xs, INTS), ir.Constant(INTS, [0x7FFFFFFF] * LANES))
        below, rest = ir.Constant(INTS, [1] * LANES), ir.Constant(INTS, [_BITS_TOO_LARGE - 1] * LANES)
        return self.b.icmp_unsigned("<", self.b.sub(size, below), rest)
