"""Operations on the classes of a slot's row, eight classes at once, in SIMD vectors like those of `kernels/lanes.py`.

Each class's numbers are made by the same operations in the same order as one by one, so they have the same bits on
every processor. For the largest and the smallest of some numbers the order makes no difference.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from stream_apple.core.jit import instruction
from stream_apple.core.learner.kernels.lane_writer import DOUBLES, FLOATS, LANE_NUMBERS, LaneWriter
from stream_apple.core.learner.state.table import CACHE_LINE, LEAST_SQUARE, MOST, MOST_WEIGHT, Floats, Index
from stream_apple.core.learner.state.work import LANES, Numbers64

_BYTE, _INT, _WORD, _FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_LEAST, _MOST, _BOUND = (float(number) for number in (LEAST_SQUARE, MOST, MOST_WEIGHT))
_LINE_OF_FLOATS = CACHE_LINE // np.dtype(np.float32).itemsize


class _ClassWriter(LaneWriter):
    """Emits instructions for each of `count` classes, eight at once; some of the last lanes may have no class."""

    def __init__(self, context: Any, builder: Any, count: Any) -> None:  # noqa: ANN401
        super().__init__(context, builder)
        self._count = count
        self._at: Any = None
        self._valid: Any = None

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

    def row(self, kind: Any, rows: Any, place: Any, column: Any) -> Any:  # noqa: ANN401
        """Return the address of rows[place, column]."""
        array = self.array(kind, rows)
        columns = cgutils.unpack_tuple(self.b, array.shape, 2)[1]
        return self.b.gep(array.data, [self.b.add(self.b.mul(place, columns), column)])

    def read(self, address: Any) -> Any:  # noqa: ANN401
        """Return these eight classes' numbers of the row that begins at `address`."""
        return self.load(self.b.gep(address, [self._at]), FLOATS, self._valid)

    def write(self, value: Any, address: Any) -> None:  # noqa: ANN401
        """Replace these eight classes' numbers of the row that begins at `address`."""
        self.store(value, self.b.gep(address, [self._at]), self._valid)

    def add(self, value: Any, sums: Any) -> None:  # noqa: ANN401
        """Add float32 numbers to these eight classes' float64 ones in the scratch.

        It stores whole vectors: after a masked store, the next feature's load would wait until memory has it.
        """
        place = self.b.gep(sums, [self._at])
        self.store(self.b.fadd(self.load(place, DOUBLES), self.b.fpext(value, DOUBLES)), place)

    def factors(self, array: Any) -> Any:  # noqa: ANN401
        """Return these eight classes' numbers of the scratch."""
        return self.load(self.b.gep(array, [self._at]), FLOATS)

    def smaller(self, one: Any, other: Any) -> Any:  # noqa: ANN401
        """Return the smaller of two numbers in each lane; none is NaN."""
        return self.b.select(self.b.fcmp_ordered("<", other, one), other, one)

    def larger(self, one: Any, other: Any) -> Any:  # noqa: ANN401
        """Return the larger of two numbers in each lane; none is NaN."""
        return self.b.select(self.b.fcmp_ordered(">", other, one), other, one)

    def within(self, value: Any, low: float, high: float) -> Any:  # noqa: ANN401
        """Return `value` clipped to [low, high]."""
        bounds = (ir.Constant(FLOATS, [bound] * LANES) for bound in (high, low))
        return self.larger(self.smaller(value, next(bounds)), next(bounds))

    def step(self, ratio: Any, gradient: Any) -> Any:  # noqa: ANN401
        """Return ratio / sqrt(gradient)."""
        return self.b.fdiv(ratio, self.call(f"sqrt.v{LANES}f32", FLOATS, gradient))

    def extreme(self, start: float) -> Any:  # noqa: ANN401
        """Return memory for the largest or smallest number so far in each lane, which any number beats at the start."""
        place = cgutils.alloca_once(self.b, FLOATS)
        self.b.store(ir.Constant(FLOATS, [start] * LANES), place)
        return place

    def note(self, place: Any, choose: Callable[[Any, Any], Any], value: Any) -> None:  # noqa: ANN401
        """Let these eight classes' numbers compete for the place."""
        before = self.b.load(place)
        chosen = choose(before, value)
        self.b.store(chosen if self._valid is None else self.b.select(self._valid, chosen, before), place)

    def best(self, place: Any, choose: Callable[[Any, Any], Any]) -> Any:  # noqa: ANN401
        """Return the best of all lanes."""
        value = self.b.load(place)
        for step in (4, 2, 1):
            value = choose(value, self.reordered(value, [(lane + step) % LANES for lane in range(LANES)]))
        return self.b.extract_element(value, _INT(0))


def add_scores_one_by_one(
    scores: Numbers64, first: Index, rows: Any, place: Index, column: Index, count: Index, x: np.float32  # noqa: ANN401
) -> None:  # fmt: skip
    """Do what `add_scores` does, without vectors, for interpreted code."""
    for c in range(count):
        scores[first + c] += np.float64(rows[place, column + c] * x)


@instruction(add_scores_one_by_one)
def add_scores(
    _context: Any, scores: Any, _first: Any, rows: Any, _place: Any, _column: Any, _count: Any, _x: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Add x times the weights rows[place, column : column + count] to the scores from `first` on."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        scores, first, rows, place, column, count, x = arguments
        writer = _ClassWriter(context, b, count)
        sums = b.gep(writer.array(signature.args[0], scores).data, [first])
        weights, factor = writer.row(signature.args[2], rows, place, column), writer.in_all(x)
        writer.each_eight(lambda: writer.add(b.fmul(writer.read(weights), factor), sums))
        return context.get_dummy_value()

    word = types.uint64
    return types.void(scores, word, rows, word, word, word, types.float32), generate


def accumulate_classes_one_by_one(
    rows: Any, place: Index, column: Index, count: Index, slopes: Floats, sensitivity: Numbers64,  # noqa: ANN401
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
    _context: Any, rows: Any, _place: Any, _column: Any, _count: Any, slopes: Any, sensitivity: Any,  # noqa: ANN401
    _x: Any, _ratio: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Add a feature's squared gradients to its accumulators, from rows[place, column] on, and to the sensitivities.

    slopes  float32[classes], importance times the squared slope
    ratio   x / scale
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        rows, place, column, count, slopes, sensitivity, x, ratio = arguments
        writer = _ClassWriter(context, b, count)
        slopes, sums = writer.array(signature.args[4], slopes).data, writer.array(signature.args[5], sensitivity).data
        accumulators = writer.row(signature.args[0], rows, place, column)
        square = writer.in_all(writer.larger(b.fmul(x, x), _FLOAT(_LEAST)))
        value, share = writer.in_all(x), writer.in_all(ratio)

        def accumulate() -> None:
            gradient = b.fadd(writer.read(accumulators), b.fmul(writer.factors(slopes), square))
            gradient = writer.within(gradient, _LEAST, _MOST)
            writer.write(gradient, accumulators)
            writer.add(b.fmul(value, writer.step(share, gradient)), sums)

        writer.each_eight(accumulate)
        return context.get_dummy_value()

    word, number = types.uint64, types.float32
    return types.void(rows, word, word, word, slopes, sensitivity, number, number), generate


def move_classes_one_by_one(
    rows: Any, place: Index, column: Index, k: Index, changes: Floats, ratio: np.float32  # noqa: ANN401
) -> np.float32:  # fmt: skip
    """Do what `move_classes` does, without vectors, for interpreted code."""
    for c in range(k):
        step = ratio / np.sqrt(max(rows[place, column + k + c], LEAST_SQUARE))
        rows[place, column + c] = min(max(rows[place, column + c] + changes[c] * step, -MOST_WEIGHT), MOST_WEIGHT)
    weights = rows[place, column : column + k]
    return np.float32(abs(weights.max() - weights.min()))


@instruction(move_classes_one_by_one)
def move_classes(
    _context: Any, rows: Any, _place: Any, _column: Any, _count: Any, changes: Any, _ratio: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Move the weights from rows[place, column] on, which their accumulators follow, by their steps.

    changes  float32[classes], the factors of the steps
    ratio    x / scale

    Returns the largest difference of two of the weights.
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        rows, place, column, count, changes, ratio = arguments
        writer = _ClassWriter(context, b, count)
        changes = writer.array(signature.args[4], changes).data
        weights = writer.row(signature.args[0], rows, place, column)
        accumulators, share = b.gep(weights, [count]), writer.in_all(ratio)
        low, high = writer.extreme(float("inf")), writer.extreme(float("-inf"))

        def move() -> None:
            gradient = writer.larger(writer.read(accumulators), ir.Constant(FLOATS, [_LEAST] * LANES))
            by = b.fmul(writer.factors(changes), writer.step(share, gradient))
            moved = writer.within(b.fadd(writer.read(weights), by), -_BOUND, _BOUND)
            writer.write(moved, weights)
            writer.note(low, writer.smaller, moved)
            writer.note(high, writer.larger, moved)

        writer.each_eight(move)
        spread = b.fsub(writer.best(high, writer.larger), writer.best(low, writer.smaller))
        return b.call(
            cgutils.get_or_insert_function(b.module, ir.FunctionType(_FLOAT, [_FLOAT]), "llvm.fabs.f32"), [spread]
        )

    word, number = types.uint64, types.float32
    return number(rows, word, word, word, changes, number), generate


def average_classes_one_by_one(rows: Any, place: Index, column: Index, count: Index, share: np.float32) -> None:  # noqa: ANN401
    """Do what `average_classes` does, without vectors, for interpreted code."""
    for c in range(count):
        mean = rows[place, column + c]
        rows[place, column + c] = mean + (rows[place, c] - mean) * share


@instruction(average_classes_one_by_one)
def average_classes(
    _context: Any, rows: Any, _place: Any, _column: Any, _count: Any, _share: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Move the means in rows[place, column : column + count] by this share of the way to rows[place, :count]."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        rows, place, column, count, share = arguments
        writer = _ClassWriter(context, b, count)
        weights, means = (writer.row(signature.args[0], rows, place, at) for at in (_WORD(0), column))
        factor = writer.in_all(share)

        def average() -> None:
            mean = writer.read(means)
            writer.write(b.fadd(mean, b.fmul(b.fsub(writer.read(weights), mean), factor)), means)

        writer.each_eight(average)
        return context.get_dummy_value()

    word = types.uint64
    return types.void(rows, word, word, word, types.float32), generate


def _prefetch_no_row(_rows: object, _place: object, _column: object, _count: object) -> None:
    """Do nothing: interpreted code gains nothing by a prefetch."""


@instruction(_prefetch_no_row)
def prefetch_row(_context: Any, rows: Any, _place: Any, _column: Any, _count: Any) -> tuple[object, object]:  # noqa: ANN401
    """Prefetch all cache lines of rows[place, column : column + count]."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        rows, place, column, count = arguments
        writer = LaneWriter(context, b)
        first = _ClassWriter(context, b, count).row(signature.args[0], rows, place, column)
        for_reading, keep, data = _INT(0), _INT(3), _INT(1)

        def ask(at: Any) -> None:  # noqa: ANN401
            address = b.bitcast(b.gep(first, [at]), _BYTE.as_pointer())
            writer.call("prefetch.p0", ir.VoidType(), address, for_reading, keep, data)

        with cgutils.for_range_slice(b, _WORD(0), count, _WORD(_LINE_OF_FLOATS), _WORD) as (at, _):
            ask(at)
        ask(b.sub(count, _WORD(1)))
        return context.get_dummy_value()

    word = types.uint64
    return types.void(rows, word, word, word), generate
