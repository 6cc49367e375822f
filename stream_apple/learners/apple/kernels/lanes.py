"""Eight products at once, in SIMD vectors, which the compiler does not make itself: it can't tell which arrays overlap.

The code is written in LLVM's intermediate language, and compiled for the vectors that the processor has. The results
are whole numbers and single products, so they are the same on every processor. Interpreted code takes the lanes one by
one.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import Operand, emit_prefetch, instruction, no_prefetch
from stream_apple.learners.apple.kernels.lane_writer import FLOATS, INTS, LANE_NUMBERS, WORDS, LaneWriter
from stream_apple.learners.apple.state.table import BUCKET, ONES, Index, Words
from stream_apple.learners.apple.state.work import LANES, BaseFeatures, Numbers, Products

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
    b: Operand, tags: Operand, base: Operand, first: Operand, key: Operand, words: Operand, at: Operand
) -> None:
    """Copy the words of tags in which `look_up` will look up the same products to words[at:at + 8], always eight.

    It is apart from `look_up` so that a processor fetches the words of many products at once. In one loop hardly two
    times eight products fit into the instructions that it looks ahead, and each waits for memory.
    """
    writer = LaneWriter(b)
    keys, _ = _load_keys(writer, base, first)
    _, bucket = _buckets(writer, tags, b.add(keys, writer.in_all(key)))
    writer.store(writer.gather(tags, bucket), b.gep(words.data, [at]))


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


@instruction(look_up_one_by_one, types.uint64)
def look_up(
    b: Operand,
    tags: Operand,
    words: Operand,
    base: Operand,
    first: Operand,
    node: Operand,
    products: Operand,
    end: Operand,
    at: Operand,
) -> Operand:
    """Multiply a node with the base features [first, min(first + 8, base.stop)), and look up the products' tags.

    words  uint64[...]  what `copy_words` has copied; words[at] is the word of the first product

    Always writes eight products, from `end` on; if there are fewer features, the last ones are not products. Returns a
    byte whose bits say for which products a tag fits. `Products` says what their places are.
    """
    writer = LaneWriter(b)
    keys, valid = _load_keys(writer, base, first)
    keys = b.add(keys, writer.in_all(node.key))
    xs = b.fmul(writer.load(b.gep(base.values.data, [first]), FLOATS, valid), writer.in_all(node.x))

    buckets, bucket = _buckets(writer, tags, keys)
    word = writer.load(b.gep(words.data, [at]), WORDS)
    fits = _fits(writer, word, keys)
    absent = b.icmp_unsigned("==", fits, writer.number(0))
    within = _first_within(writer, fits)
    full = b.zext(b.icmp_unsigned("==", writer.zero_bytes(word), writer.number(0)), WORDS)
    first_slot = b.shl(bucket, writer.number(3))
    constant = writer.in_all(b.shl(buckets, _I64(3)))
    own = b.select(writer.is_feature(xs), b.add(first_slot, within), constant)
    place = b.select(absent, b.add(first_slot, full), own)

    number = writer.in_all(b.trunc(node.number, _I32))
    for value, array in ((keys, products.key), (xs, products.x), (place, products.place), (number, products.node)):
        writer.store(value, b.gep(array.data, [end]))
    return b.zext(b.bitcast(b.and_(b.not_(absent), valid), _I8), _I64)


@instruction(no_prefetch)
def prefetch_owners(b: Operand, table: Operand, base: Operand, first: Operand) -> None:
    """Prefetch what base features [first, first + 8) have in the table, slots and companions, wherever a tag fits."""
    writer = LaneWriter(b)
    keys, _ = _load_keys(writer, base, first)
    _, bucket = _buckets(writer, table.tags, keys)
    fits = _fits(writer, writer.gather(table.tags, bucket), keys)
    within = b.and_(_first_within(writer, fits), writer.number(BUCKET - 1))
    place = b.add(b.shl(bucket, writer.number(3)), within)
    for lane in range(LANES):
        for array in (table.slots, table.companions):
            emit_prefetch(b, b.gep(array.data, [b.extract_element(place, _I32(lane))]))


def _load_keys(writer: LaneWriter, base: Operand, first: Operand) -> tuple[Operand, Operand]:
    """Return the keys of base features [first, min(first + 8, base.stop)), else 0, and which lanes have one."""
    b = writer.b
    valid = b.icmp_unsigned("<", b.add(writer.in_all(first), LANE_NUMBERS), writer.in_all(base.stop))
    return writer.load(b.gep(base.keys.data, [first]), WORDS, valid), valid


def _fits(writer: LaneWriter, word: Operand, keys: Operand) -> Operand:
    """Return the words with the high bit set in the first byte that is the key's tag; 0 if none is."""
    b = writer.b
    tag = b.or_(b.and_(keys, writer.number(0xFF)), writer.number(1))
    return writer.zero_bytes(b.xor(word, b.mul(tag, writer.number(int(ONES)))))


def _first_within(writer: LaneWriter, fits: Operand) -> Operand:
    """Return which byte of each word is the first that fits; 8 if none does."""
    return writer.b.lshr(writer.call(f"cttz.v{LANES}i64", WORDS, fits, _I1(0)), writer.number(3))


def _buckets(writer: LaneWriter, tags: Operand, keys: Operand) -> tuple[Operand, Operand]:
    """Return the number of buckets, and each key's."""
    b = writer.b
    buckets = cgutils.unpack_tuple(b, tags.shape, 1)[0]
    return buckets, b.and_(b.lshr(keys, writer.number(8)), writer.in_all(b.sub(buckets, _I64(1))))


def append_one_by_one(numbers: Numbers, end: Index, base: Index, chosen: Index) -> Index:
    """Do what `append` does, without vectors, for interpreted code."""
    for lane in range(LANES):
        if int(chosen) >> lane & 1:
            numbers[end] = base + lane
            end += 1
    return end


@instruction(append_one_by_one, types.uint64)
def append(b: Operand, numbers: Operand, end: Operand, base: Operand, chosen: Operand) -> Operand:
    """Write `base` + the number of each bit that is set in the byte `chosen`, from numbers[end] on; return the new end.

    It always writes eight numbers, and the new end keeps as many as bits are set: a branch would be mispredicted half
    the time.
    """
    writer = LaneWriter(b)
    kind = ir.ArrayType(_I64, len(_BITS_OF_A_BYTE))
    table = cgutils.global_constant(b, "bits_of_a_byte", ir.Constant(kind, _BITS_OF_A_BYTE))
    bits = b.bitcast(b.load(b.gep(table, [_I64(0), chosen])), _BYTES)
    values = b.add(b.zext(bits, INTS), writer.in_all(b.trunc(base, _I32)))
    writer.store(values, b.gep(numbers.data, [end]))
    return b.add(end, b.ctpop(chosen))


def count_bits(byte: Index) -> Index:
    """Do what `bits_in` does, for interpreted code."""
    return np.uint64(int(byte).bit_count())


@instruction(count_bits, types.uint64)
def bits_in(b: Operand, byte: Operand) -> Operand:
    """Return how many bits of a number are set."""
    return b.ctpop(byte)
