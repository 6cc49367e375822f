"""Eight products at once, in SIMD vectors, which the compiler does not make itself: it can't tell which arrays overlap.

The code is written in LLVM's intermediate language, and compiled for the vectors that the processor has. The results
are whole numbers and single products, so they are the same on every processor. Interpreted code takes the lanes one by
one.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import emit_prefetch, instruction
from stream_apple.core.learner.kernels.lane_writer import FLOATS, INTS, LANE_NUMBERS, WORDS, LaneWriter
from stream_apple.core.learner.state.table import BUCKET, ONES, Index, Table, Words
from stream_apple.core.learner.state.work import LANES, BaseFeatures, Numbers, Products

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_BYTES = ir.VectorType(_I8, LANES)
_BITS_OF_A_BYTE = [
    int.from_bytes([bit for bit in range(8) if byte >> bit & 1], "little") for byte in range(256)
]  # the numbers of the bits that are set, in the bytes of a word


class Multiplier(NamedTuple):
    """The node that base features are multiplied with: its key, its value, and its number among the nodes."""

    key: Index
    x: Index
    number: Index


def copy_words_one_by_one(tags: Words, base: BaseFeatures, first: Index, key: Index, words: Words, at: Index) -> None:
    """Do what `copy_words` does, without vectors, for interpreted code."""
    for lane in range(min(int(base.stop) - int(first), LANES)):
        words[int(at) + lane] = tags[int(key + base.keys[int(first) + lane]) >> 8 & len(tags) - 1]


@instruction(copy_words_one_by_one)
def copy_words(
    _context: Any, tags: Any, base: Any, _first: Any, _key: Any, words: Any, _at: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Copy the words of tags in which `look_up` will look up the same products to words[at:at + 8], always eight.

    It is apart from `look_up` so that a processor fetches the words of many products at once. In one loop hardly two
    times eight products fit into the instructions that it looks ahead, and each waits for memory.
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        writer = LaneWriter(context, b)
        tags_kind, base_kind, _, _, words_kind, _ = signature.args
        tags, base, first, key, words, at = arguments
        tags_array = writer.array(tags_kind, tags)
        keys, _ = _load_keys(writer, base_kind, base, first)
        _, bucket = _buckets(writer, tags_array, b.add(keys, writer.in_all(key)))
        writer.store(writer.gather(tags_array, bucket), b.gep(writer.array(words_kind, words).data, [at]))
        return context.get_dummy_value()

    word = types.uint64
    return types.void(tags, base, word, word, words, word), generate


def look_up_one_by_one(
    tags: Words, words: Words, base: BaseFeatures, first: Index, node: Multiplier, products: Products, end: Index,
    at: Index,
) -> np.uint64:  # fmt: skip
    """Do what `look_up` does, without vectors, for interpreted code."""
    fit, constant = 0, len(tags) * BUCKET
    for lane in range(min(int(base.stop) - int(first), LANES)):
        product, feature = int(end) + lane, int(first) + lane
        key = node.key + base.keys[feature]
        bucket = int(key) >> 8 & len(tags) - 1
        tags_there = int(words[int(at) + lane]).to_bytes(BUCKET, "little")
        within = tags_there.find(int(key) & 0xFF | 1)
        x = node.x * base.values[feature]
        products.key[product], products.x[product], products.node[product] = key, x, node.number
        if within < 0:
            products.place[product] = bucket * BUCKET + int(0 not in tags_there)
        else:
            products.place[product] = bucket * BUCKET + within if 0.0 < abs(x) < TOO_LARGE else constant
        fit |= int(within >= 0) << lane
    return np.uint64(fit)


@instruction(look_up_one_by_one)
def look_up(
    _context: Any, tags: Any, words: Any, base: Any, _first: Any, node: Any, products: Any, _end: Any,  # noqa: ANN401
    _at: Any,  # noqa: ANN401
) -> tuple[object, object]:  # fmt: skip
    """Multiply a node with the base features [first, min(first + 8, base.stop)), and look up the products' tags.

    words  uint64[...]  what `copy_words` has copied; words[at] is the word of the first product

    Always writes eight products, from `end` on; if there are fewer features, the last ones are not products. Returns a
    byte whose bits say for which products a tag fits. `Products` says what their places are.
    """

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        writer = LaneWriter(context, b)
        tags_kind, words_kind, base_kind, _, node_kind, products_kind, *_ = signature.args
        tags, words, base, first, node, products, end, at = arguments
        tags_array = writer.array(tags_kind, tags)
        node_key, node_x, number = (b.extract_value(node, node_kind.fields.index(name)) for name in Multiplier._fields)
        keys, valid = _load_keys(writer, base_kind, base, first)
        keys = b.add(keys, writer.in_all(node_key))
        xs = writer.load(b.gep(writer.array_in(base_kind, base, "values").data, [first]), FLOATS, valid)
        xs = b.fmul(xs, writer.in_all(node_x))

        buckets, bucket = _buckets(writer, tags_array, keys)
        word = writer.load(b.gep(writer.array(words_kind, words).data, [at]), WORDS)
        fits = _fits(writer, word, keys)
        absent = b.icmp_unsigned("==", fits, writer.number(0))
        within = _first_within(writer, fits)
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
    return word(tags, words, base, word, node, products, word, word), generate


def _look_no_further(_table: Table, _base: BaseFeatures, _first: Index) -> None:
    """Do nothing: interpreted code gains nothing by a prefetch."""


@instruction(_look_no_further)
def prefetch_owners(_context: Any, table: Any, base: Any, _first: Any) -> tuple[object, object]:  # noqa: ANN401
    """Prefetch what base features [first, first + 8) have in the table, slots and companions, wherever a tag fits."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        writer = LaneWriter(context, b)
        table_kind, base_kind, _ = signature.args
        table, base, first = arguments
        tags_array = writer.array_in(table_kind, table, "tags")
        keys, _ = _load_keys(writer, base_kind, base, first)
        _, bucket = _buckets(writer, tags_array, keys)
        fits = _fits(writer, writer.gather(tags_array, bucket), keys)
        within = b.and_(_first_within(writer, fits), writer.number(BUCKET - 1))
        place = b.add(b.shl(bucket, writer.number(3)), within)
        for lane in range(LANES):
            at = b.extract_element(place, _I32(lane))
            for field in ("slots", "companions"):
                start = b.ptrtoint(writer.array_in(table_kind, table, field).data, _I64)
                width = context.get_abi_sizeof(
                    context.get_data_type(table_kind.types[table_kind.fields.index(field)].dtype)
                )
                emit_prefetch(b, b.add(start, b.mul(at, _I64(width))))
        return context.get_dummy_value()

    return types.void(table, base, types.uint64), generate


def _load_keys(writer: LaneWriter, base_kind: Any, base: Any, first: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the keys of base features [first, min(first + 8, base.stop)), else 0, and which lanes have one."""
    b = writer.b
    stop = b.extract_value(base, base_kind.fields.index("stop"))
    valid = b.icmp_unsigned("<", b.add(writer.in_all(first), LANE_NUMBERS), writer.in_all(stop))
    return writer.load(b.gep(writer.array_in(base_kind, base, "keys").data, [first]), WORDS, valid), valid


def _fits(writer: LaneWriter, word: Any, keys: Any) -> Any:  # noqa: ANN401
    """Return the words with the high bit set in the first byte that is the key's tag; 0 if none is."""
    b = writer.b
    tag = b.or_(b.and_(keys, writer.number(0xFF)), writer.number(1))
    return writer.zero_bytes(b.xor(word, b.mul(tag, writer.number(int(ONES)))))


def _first_within(writer: LaneWriter, fits: Any) -> Any:  # noqa: ANN401
    """Return which byte of each word is the first that fits; 8 if none does."""
    return writer.b.lshr(writer.call(f"cttz.v{LANES}i64", WORDS, fits, _I1(0)), writer.number(3))


def _buckets(writer: LaneWriter, tags_array: Any, keys: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the number of buckets, and each key's."""
    b = writer.b
    buckets = cgutils.unpack_tuple(b, tags_array.shape, 1)[0]
    return buckets, b.and_(b.lshr(keys, writer.number(8)), writer.in_all(b.sub(buckets, _I64(1))))


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

    It always writes eight numbers, and the new end keeps as many as bits are set: a branch would be mispredicted half
    the time.
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


def count_bits(byte: Index) -> Any:  # noqa: ANN401
    """Do what `bits_in` does, for interpreted code."""
    return np.uint64(int(byte).bit_count())


@instruction(count_bits)
def bits_in(_context: Any, _byte: Any) -> tuple[object, object]:  # noqa: ANN401
    """Return how many bits of a number are set."""

    def generate(_context: Any, b: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return b.ctpop(arguments[0])

    return types.uint64(types.uint64), generate
