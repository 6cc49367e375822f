"""Operations on the classes of a slot's row, eight classes at once, in SIMD vectors like those of `kernels/lanes.py`.

Each class's numbers are made by the same operations in the same order as one by one, so they have the same bits on
every processor. For the largest and the smallest of some numbers the order makes no difference.
"""

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from stream_apple.core.jit import Operand, emit_prefetch, instruction, no_prefetch
from stream_apple.learners.apple.kernels.lane_writer import DOUBLES, FLOATS, LANE_NUMBERS, LaneWriter
from stream_apple.learners.apple.state.table import CACHE_LINE, LEAST_SQUARE, MOST, MOST_WEIGHT, Floats, Index
from stream_apple.learners.apple.state.work import LANES, Numbers64

_INT, _WORD, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_LEAST, _MOST, _BOUND = (float(number) for number in (LEAST_SQUARE, MOST, MOST_WEIGHT))
_LINE_OF_FLOATS = CACHE_LINE // np.dtype(np.float32).itemsize


class _ClassWriter(LaneWriter):
    """Emits instructions for each of `count` classes, eight at once; some of the last lanes may have no class."""

    def __init__(self, builder: Operand, count: Operand) -> None:
        super().__init__(builder)
        self._count = count
        self._at: Operand = None
        self._valid: Operand = None

    def each_eight(self, body: Callable[[], None]) -> None:
        """Emit `body` in a loop, and once more for the classes that are left."""
        b = self.b
        whole = b.and_(self._count, _WORD(-LANES))
        with cgutils.for_range_slice(b, _WORD(0), whole, _WORD(LANES), _WORD) as (at, _):
            self._at = at
            body()
        with b.if_then(b.icmp_unsigned("<", whole, self._count)):
            self._at = whole
            self._valid = b.icmp_unsigned("<", LANE_NUMBERS, self.in_all(b.sub(self._count, whole)))
            body()

    def row(self, rows: Operand, place: Operand, column: Operand) -> Operand:
        """Return the address of rows[place, column]."""
        columns = cgutils.unpack_tuple(self.b, rows.shape, 2)[1]
        return self.b.gep(rows.data, [self.b.add(self.b.mul(place, columns), column)])

    def read(self, address: Operand) -> Operand:
        """Return these eight classes' numbers of the row that begins at `address`."""
        return self.load(self.b.gep(address, [self._at]), FLOATS, self._valid)

    def write(self, value: Operand, address: Operand) -> None:
        """Replace these eight classes' numbers of the row that begins at `address`."""
        self.store(value, self.b.gep(address, [self._at]), self._valid)

    def add(self, value: Operand, sums: Operand) -> None:
        """Add float32 numbers to these eight classes' float64 ones in the scratch.

        It stores whole vectors: after a masked store, the next feature's load would wait until memory has it.
        """
        place = self.b.gep(sums, [self._at])
        self.store(self.b.fadd(self.load(place, DOUBLES), self.b.fpext(value, DOUBLES)), place)

    def factors(self, array: Operand) -> Operand:
        """Return these eight classes' numbers of the scratch."""
        return self.load(self.b.gep(array, [self._at]), FLOATS)

    def smaller(self, one: Operand, other: Operand) -> Operand:
        """Return the smaller of two numbers in each lane; none is NaN."""
        return self.b.select(self.b.fcmp_ordered("<", other, one), other, one)

    def larger(self, one: Operand, other: Operand) -> Operand:
        """Return the larger of two numbers in each lane; none is NaN."""
        return self.b.select(self.b.fcmp_ordered(">", other, one), other, one)

    def within(self, value: Operand, low: float, high: float) -> Operand:
        """Return `value` clipped to [low, high]."""
        most, least = (ir.Constant(FLOATS, [bound] * LANES) for bound in (high, low))
        return self.larger(self.smaller(value, most), least)

    def step(self, ratio: Operand, gradient: Operand) -> Operand:
        """Return ratio / sqrt(gradient)."""
        return self.b.fdiv(ratio, self.call(f"sqrt.v{LANES}f32", FLOATS, gradient))

    def extreme(self, start: float) -> Operand:
        """Return memory for the largest or smallest number so far in each lane, which any number beats at the start."""
        place = cgutils.alloca_once(self.b, FLOATS)
        self.b.store(ir.Constant(FLOATS, [start] * LANES), place)
        return place

    def note(self, place: Operand, choose: Callable[[Operand, Operand], Operand], value: Operand) -> None:
        """Let these eight classes' numbers compete for the place."""
        before = self.b.load(place)
        chosen = choose(before, value)
        self.b.store(chosen if self._valid is None else self.b.select(self._valid, chosen, before), place)

    def best(self, place: Operand, choose: Callable[[Operand, Operand], Operand]) -> Operand:
        """Return the best of all lanes."""
        value = self.b.load(place)
        for step in (4, 2, 1):
            value = choose(value, self.reordered(value, [(lane + step) % LANES for lane in range(LANES)]))
        return self.b.extract_element(value, _INT(0))


def add_scores_one_by_one(
    scores: Numbers64, first: Index, rows: Floats, place: Index, column: Index, count: Index, x: np.float32
) -> None:  # fmt: skip
    """Do what `add_scores` does, without vectors, for interpreted code."""
    for c in range(count):
        scores[first + c] += np.float64(rows[place, column + c] * x)


@instruction(add_scores_one_by_one)
def add_scores(
    b: Operand,
    scores: Operand,
    first: Operand,
    rows: Operand,
    place: Operand,
    column: Operand,
    count: Operand,
    x: Operand,
) -> None:
    """Add x times the weights rows[place, column : column + count] to the scores from `first` on."""
    writer = _ClassWriter(b, count)
    sums, weights, factor = b.gep(scores.data, [first]), writer.row(rows, place, column), writer.in_all(x)
    writer.each_eight(lambda: writer.add(b.fmul(writer.read(weights), factor), sums))


def accumulate_classes_one_by_one(
    rows: Floats, place: Index, column: Index, count: Index, slopes: Floats, sensitivity: Numbers64,
    x: np.float32, ratio: np.float32,
) -> None:  # fmt: skip
    """Do what `accumulate_classes` does, without vectors, for interpreted code."""
    square = max(x * x, LEAST_SQUARE)
    for c in range(count):
        gradient = max(min(rows[place, column + c] + slopes[c] * square, MOST), LEAST_SQUARE)
        rows[place, column + c] = gradient
        sensitivity[c] += np.float64(x * (ratio / np.sqrt(gradient)))


@instruction(accumulate_classes_one_by_one)
def accumulate_classes(
    b: Operand,
    rows: Operand,
    place: Operand,
    column: Operand,
    count: Operand,
    slopes: Operand,
    sensitivity: Operand,
    x: Operand,
    ratio: Operand,
) -> None:
    """Add a feature's squared gradients to its accumulators, from rows[place, column] on, and to the sensitivities.

    slopes  float32[classes], importance times the squared slope
    ratio   x / scale
    """
    writer = _ClassWriter(b, count)
    accumulators = writer.row(rows, place, column)
    square = writer.in_all(writer.larger(b.fmul(x, x), _FLOAT(_LEAST)))
    value, share = writer.in_all(x), writer.in_all(ratio)

    def accumulate() -> None:
        gradient = b.fadd(writer.read(accumulators), b.fmul(writer.factors(slopes.data), square))
        gradient = writer.within(gradient, _LEAST, _MOST)
        writer.write(gradient, accumulators)
        writer.add(b.fmul(value, writer.step(share, gradient)), sensitivity.data)

    writer.each_eight(accumulate)


def move_classes_one_by_one(
    rows: Floats, place: Index, column: Index, k: Index, changes: Floats, ratio: np.float32
) -> np.float32:  # fmt: skip
    """Do what `move_classes` does, without vectors, for interpreted code."""
    for c in range(k):
        step = ratio / np.sqrt(max(rows[place, column + k + c], LEAST_SQUARE))
        rows[place, column + c] = min(max(rows[place, column + c] + changes[c] * step, -MOST_WEIGHT), MOST_WEIGHT)
    weights = rows[place, column : column + k]
    return np.float32(abs(weights.max() - weights.min()))


@instruction(move_classes_one_by_one, types.float32)
def move_classes(
    b: Operand, rows: Operand, place: Operand, column: Operand, count: Operand, changes: Operand, ratio: Operand
) -> Operand:
    """Move the weights from rows[place, column] on, which their accumulators follow, by their steps.

    changes  float32[classes], the factors of the steps
    ratio    x / scale

    Returns the largest difference of two of the weights.
    """
    writer = _ClassWriter(b, count)
    weights, share = writer.row(rows, place, column), writer.in_all(ratio)
    accumulators = b.gep(weights, [count])
    low, high = writer.extreme(float("inf")), writer.extreme(float("-inf"))

    def move() -> None:
        gradient = writer.larger(writer.read(accumulators), ir.Constant(FLOATS, [_LEAST] * LANES))
        by = b.fmul(writer.factors(changes.data), writer.step(share, gradient))
        moved = writer.within(b.fadd(writer.read(weights), by), -_BOUND, _BOUND)
        writer.write(moved, weights)
        writer.note(low, writer.smaller, moved)
        writer.note(high, writer.larger, moved)

    writer.each_eight(move)
    spread = b.fsub(writer.best(high, writer.larger), writer.best(low, writer.smaller))
    return writer.call("fabs.f32", _FLOAT, spread)


def average_classes_one_by_one(rows: Floats, place: Index, column: Index, count: Index, share: np.float32) -> None:
    """Do what `average_classes` does, without vectors, for interpreted code."""
    for c in range(count):
        mean = rows[place, column + c]
        rows[place, column + c] = mean + (rows[place, c] - mean) * share


@instruction(average_classes_one_by_one)
def average_classes(b: Operand, rows: Operand, place: Operand, column: Operand, count: Operand, share: Operand) -> None:
    """Move the means in rows[place, column : column + count] by this share of the way to rows[place, :count]."""
    writer = _ClassWriter(b, count)
    weights, means = (writer.row(rows, place, at) for at in (_WORD(0), column))
    factor = writer.in_all(share)

    def average() -> None:
        mean = writer.read(means)
        writer.write(b.fadd(mean, b.fmul(b.fsub(writer.read(weights), mean), factor)), means)

    writer.each_eight(average)


@instruction(no_prefetch)
def prefetch_row(b: Operand, rows: Operand, place: Operand, column: Operand, count: Operand) -> None:
    """Prefetch all cache lines of rows[place, column : column + count]."""
    first = _ClassWriter(b, count).row(rows, place, column)
    with cgutils.for_range_slice(b, _WORD(0), count, _WORD(_LINE_OF_FLOATS), _WORD) as (at, _):
        emit_prefetch(b, b.gep(first, [at]))
    emit_prefetch(b, b.gep(first, [b.sub(count, _WORD(1))]))
