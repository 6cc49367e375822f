"""Eight products at once, in SIMD vectors: the compiler can't tell which arrays overlap, so it makes none itself.

The code is written in LLVM's intermediate language, and compiled for the vectors that the processor has. The results
are whole numbers and single products, so they are the same on every processor; interpreted code takes the lanes one by
one.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import instruction
from stream_apple.core.learner.state.table import BUCKET, HIGHS, ONES, Index, Words
from stream_apple.core.learner.state.work import LANES, BaseFeatures, Numbers, Products

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_BYTES, _INTS, _WORDS = (ir.VectorType(kind, LANES) for kind in (_I8, _I32, _I64))
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_POINTERS = ir.VectorType(_I64.as_pointer(), LANES)
_BITS_TOO_LARGE = int(TOO_LARGE.view(np.uint32))
_LANE_NUMBERS = ir.Constant(_WORDS, list(range(LANES)))
_BITS_OF_A_BYTE = [
    int.from_bytes([bit for bit in range(8) if byte >> bit & 1], "little") for byte in range(256)
]  # the numbers of the bits that are set, in the bytes of a word


class Multiplier(NamedTuple):
    """The node that base features are multiplied with; `number`: which node it is."""

    key: Index
    x: Index
    number: Index


class _Writer:
    """Emits LLVM instructions that work on all lanes at once."""

    def __init__(self, context: Any, builder: Any) -> None:  # noqa: ANN401
        self._context, self.b = context, builder

    def array(self, kind: Any, value: Any) -> Any:  # noqa: ANN401
        """Return the struct of an array argument, with fields such as `data`."""
        return self._context.make_array(kind)(self._context, self.b, value)

    def array_in(self, kind: Any, value: Any, field: str) -> Any:  # noqa: ANN401
        """Return the struct of the array that is field `field` of a named tuple."""
        at = kind.fields.index(field)
        return self.array(kind.types[at], self.b.extract_value(value, at))

    def in_all(self, value: Any) -> Any:  # noqa: ANN401
        """Return a vector with the scalar `value` in each lane."""
        nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
        return self.b.shuffle_vector(
            self.b.insert_element(nothing, value, _I32(0)), nothing, ir.Constant(_INTS, [0] * LANES)
        )

    def number(self, number: int) -> ir.Constant:
        """Return a vector of 64-bit integers with `number` in each lane."""
        return ir.Constant(_WORDS, [number] * LANES)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401
        """Call the intrinsic function `llvm.NAME` of LLVM."""
        form = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.b.call(cgutils.get_or_insert_function(self.b.module, form, f"llvm.{name}"), arguments)

    def load(self, array: Any, at: Any, kind: Any, name: str, valid: Any) -> Any:  # noqa: ANN401
        """Load array[at : at + 8]; lanes that are not `valid` are 0, and their memory is not read."""
        source = self.b.bitcast(self.b.gep(array.data, [at]), kind.as_pointer())
        zeros = ir.Constant(kind, None)
        return self.call(f"masked.load.v{LANES}{name}.p0", kind, source, _I32(4), valid, zeros)

    def gather(self, array: Any, at: Any, valid: Any) -> Any:  # noqa: ANN401
        """Load the words array[at], for each lane's `at`; lanes that are not `valid` are 0."""
        offset = self.b.shl(at, self.number(3))
        address = self.b.add(self.in_all(self.b.ptrtoint(array.data, _I64)), offset)
        pointers = self.b.inttoptr(address, _POINTERS)
        zeros = self.number(0)
        return self.call(f"masked.gather.v{LANES}i64.v{LANES}p0", _WORDS, pointers, _I32(8), valid, zeros)

    def zero_bytes(self, words: Any) -> Any:  # noqa: ANN401
        """Set the high bit of the lowest byte that is zero, and perhaps those of higher bytes that are not."""
        below = self.b.sub(words, self.number(int(ONES)))
        return self.b.and_(self.b.and_(below, self.b.not_(words)), self.number(int(HIGHS)))

    def is_feature(self, xs: Any) -> Any:  # noqa: ANN401
        """Tell for each lane whether a product is not 0, TOO_LARGE or NaN: one comparison of bits does it."""
        size = self.b.and_(self.b.bitcast(xs, _INTS), ir.Constant(_INTS, [0x7FFFFFFF] * LANES))
        below, rest = ir.Constant(_INTS, [1] * LANES), ir.Constant(_INTS, [_BITS_TOO_LARGE - 1] * LANES)
        return self.b.icmp_unsigned("<", self.b.sub(size, below), rest)

    def store(self, value: Any, array: Any, at: Any) -> None:  # noqa: ANN401
        """Store the vector `value` to array[at : at + 8]."""
        place = self.b.gep(array.data, [at])
        self.b.store(value, self.b.bitcast(place, value.type.as_pointer())).align = 4


def look_up_one_by_one(
    tags: Words, base: BaseFeatures, first: Index, node: Multiplier, products: Products, end: Index
) -> np.uint64:
    """Do what `look_up` does, without vectors, for interpreted code."""
    fit, constant = 0, len(tags) * BUCKET
    for lane in range(min(int(base.stop) - int(first), LANES)):
        at, feature = int(end) + lane, int(first) + lane
        key = node.key + base.keys[feature]
        bucket = int(key) >> 8 & len(tags) - 1
        tags_there = int(tags[bucket]).to_bytes(BUCKET, "little")
        within = tags_there.find(int(key) & 0xFF | 1)
        x = node.x * base.values[feature]
        products.key[at], products.x[at], products.node[at] = key, x, node.number
        if within < 0:
            products.place[at] = bucket * BUCKET + int(0 not in tags_there)
        else:
            products.place[at] = bucket * BUCKET + within if 0.0 < abs(x) < TOO_LARGE else constant
        fit |= int(within >= 0) << lane
    return np.uint64(fit)


@instruction(look_up_one_by_one)
def look_up(
    _context: Any, tags: Any, base: Any, _first: Any, node: Any, products: Any, _end: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Multiply a node with the base features [first, min(first + 8, base.stop)), and look up the products' tags.

    The products are written from `end` on: always eight, whose last ones are no products if there are fewer features.
    Returns a byte whose bits say for which of them a tag fits. For the places see `Products`.
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        writer = _Writer(context, b)
        tags_kind, base_kind, _, node_kind, products_kind, _ = signature.args
        tags, base, first, node, products, end = arguments
        tags_array = writer.array(tags_kind, tags)
        node_key, node_x, number = (b.extract_value(node, node_kind.fields.index(name)) for name in Multiplier._fields)
        stop = b.extract_value(base, base_kind.fields.index("stop"))
        valid = b.icmp_unsigned("<", b.add(writer.in_all(first), _LANE_NUMBERS), writer.in_all(stop))
        keys = writer.load(writer.array_in(base_kind, base, "keys"), first, _WORDS, "i64", valid)
        keys = b.add(keys, writer.in_all(node_key))
        xs = writer.load(writer.array_in(base_kind, base, "values"), first, _FLOATS, "f32", valid)
        xs = b.fmul(xs, writer.in_all(node_x))

        buckets = cgutils.unpack_tuple(b, tags_array.shape, 1)[0]
        bucket = b.and_(b.lshr(keys, writer.number(8)), writer.in_all(b.sub(buckets, _I64(1))))
        word = writer.gather(tags_array, bucket, valid)
        tag = b.or_(b.and_(keys, writer.number(0xFF)), writer.number(1))
        fits = writer.zero_bytes(b.xor(word, b.mul(tag, writer.number(int(ONES)))))
        absent = b.icmp_unsigned("==", fits, writer.number(0))
        within = b.lshr(writer.call(f"cttz.v{LANES}i64", _WORDS, fits, _I1(0)), writer.number(3))
        full = b.zext(b.icmp_unsigned("==", writer.zero_bytes(word), writer.number(0)), _WORDS)
        first_slot = b.shl(bucket, writer.number(3))
        constant = writer.in_all(b.shl(buckets, _I64(3)))
        own = b.select(writer.is_feature(xs), b.add(first_slot, within), constant)
        place = b.select(absent, b.add(first_slot, full), own)

        for value, field in ((keys, "key"), (xs, "x"), (place, "place")):
            writer.store(value, writer.array_in(products_kind, products, field), end)
        writer.store(writer.in_all(b.trunc(number, _I32)), writer.array_in(products_kind, products, "node"), end)
        return b.zext(b.bitcast(b.and_(b.not_(absent), valid), _I8), _I64)

    word = types.uint64
    return word(tags, base, word, node, products, word), generate


def append_one_by_one(numbers: Numbers, end: Index, base: Index, chosen: Index) -> Any:  # noqa: ANN401
    """Do what `append` does, without vectors, for interpreted code."""
    for lane in range(LANES):
        if int(chosen) >> lane & 1:
            numbers[end] = base + lane
            end += 1
    return end


@instruction(append_one_by_one)
def append(_context: Any, numbers: Any, _end: Any, _base: Any, _chosen: Any) -> tuple[object, object]:  # noqa: ANN401
    """Write `base` + the number of each bit that is set in the byte `chosen`, from numbers[end] on; return the new end.

    Eight are written and as many kept as bits are set: a branch would be mispredicted half the time.
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        writer, (numbers, end, base, chosen) = _Writer(context, b), arguments
        kind = ir.ArrayType(_I64, len(_BITS_OF_A_BYTE))
        table = cgutils.global_constant(b, "bits_of_a_byte", ir.Constant(kind, _BITS_OF_A_BYTE))
        bits = b.bitcast(b.load(b.gep(table, [_I64(0), chosen])), _BYTES)
        values = b.add(b.zext(bits, _INTS), writer.in_all(b.trunc(base, _I32)))
        writer.store(values, writer.array(signature.args[0], numbers), end)
        return b.add(end, b.ctpop(chosen))

    word = types.uint64
    return word(numbers, word, word, word), generate
