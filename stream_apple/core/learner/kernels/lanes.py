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
from stream_apple.core.learner.kernels.lane_writer import FLOATS, INTS, LANE_NUMBERS, WORDS, LaneWriter
from stream_apple.core.learner.state.table import BUCKET, ONES, Index, Words
from stream_apple.core.learner.state.work import LANES, BaseFeatures, Numbers, Products

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_BYTES = ir.VectorType(_I8, LANES)
_BITS_OF_A_BYTE = [
    int.from_bytes([bit for bit in range(8) if byte >> bit & 1], "little") for byte in range(256)
]  # the numbers of the bits that are set, in the bytes of a word


class Multiplier(NamedTuple):
    """The node that base features are multiplied with; `number`: which node it is."""

    key: Index
    x: Index
    number: Index


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
        writer = LaneWriter(context, b)
        tags_kind, base_kind, _, node_kind, products_kind, _ = signature.args
        tags, base, first, node, products, end = arguments
        tags_array = writer.array(tags_kind, tags)
        node_key, node_x, number = (b.extract_value(node, node_kind.fields.index(name)) for name in Multiplier._fields)
        stop = b.extract_value(base, base_kind.fields.index("stop"))
        valid = b.icmp_unsigned("<", b.add(writer.in_all(first), LANE_NUMBERS), writer.in_all(stop))
        keys = writer.load(b.gep(writer.array_in(base_kind, base, "keys").data, [first]), WORDS, valid)
        keys = b.add(keys, writer.in_all(node_key))
        xs = writer.load(b.gep(writer.array_in(base_kind, base, "values").data, [first]), FLOATS, valid)
        xs = b.fmul(xs, writer.in_all(node_x))

        buckets = cgutils.unpack_tuple(b, tags_array.shape, 1)[0]
        bucket = b.and_(b.lshr(keys, writer.number(8)), writer.in_all(b.sub(buckets, _I64(1))))
        word = writer.gather(tags_array, bucket, valid)
        tag = b.or_(b.and_(keys, writer.number(0xFF)), writer.number(1))
        fits = writer.zero_bytes(b.xor(word, b.mul(tag, writer.number(int(ONES)))))
        absent = b.icmp_unsigned("==", fits, writer.number(0))
        within = b.lshr(writer.call(f"cttz.v{LANES}i64", WORDS, fits, _I1(0)), writer.number(3))
        full = b.zext(b.icmp_unsigned("==", writer.zero_bytes(word), writer.number(0)), WORDS)
        first_slot = b.shl(bucket, writer.number(3))
        constant = writer.in_all(b.shl(buckets, _I64(3)))
        own = b.select(writer.is_feature(xs), b.add(first_slot, within), constant)
        place = b.select(absent, b.add(first_slot, full), own)

        for value, field in ((keys, "key"), (xs, "x"), (place, "place")):
            writer.store(value, b.gep(writer.array_in(products_kind, products, field).data, [end]))
        nodes = writer.array_in(products_kind, products, "node").data
        writer.store(writer.in_all(b.trunc(number, _I32)), b.gep(nodes, [end]))
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
        writer, (numbers, end, base, chosen) = LaneWriter(context, b), arguments
        kind = ir.ArrayType(_I64, len(_BITS_OF_A_BYTE))
        table = cgutils.global_constant(b, "bits_of_a_byte", ir.Constant(kind, _BITS_OF_A_BYTE))
        bits = b.bitcast(b.load(b.gep(table, [_I64(0), chosen])), _BYTES)
        values = b.add(b.zext(bits, INTS), writer.in_all(b.trunc(base, _I32)))
        writer.store(values, b.gep(writer.array(signature.args[0], numbers).data, [end]))
        return b.add(end, b.ctpop(chosen))

    word = types.uint64
    return word(numbers, word, word, word), generate
