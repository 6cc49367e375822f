"""The decoder agrees with msgpack and xxhash on every record, good or bad, and reads no byte outside a record."""

import os
import struct
import subprocess
import sys
from collections import Counter
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_oracle import BINARY, LIMITS, Pairs, disagreement, judge, key_of_index, key_of_name, rows_of
from wire_records import compare, records

from stream_apple.core.decode import Decoder, Limits, explain, feature_key, index_key
from stream_apple.core.rejects import Reason

TESTS = Path(__file__).resolve().parents[1]
DECODERS = [(Decoder(limits), limits) for limits in (LIMITS, BINARY)]
A_FEATURE = {"a": 1}


def reason_of(message: Any, limits: Limits = LIMITS) -> Reason:
    """What the decoder makes of one record: packed msgpack, or an object to pack."""
    value = message if isinstance(message, bytes) else msgpack.packb(message)
    return Reason(int(Decoder(limits).decode([value]).reasons[0]))


def row_of(message: Any, limits: Limits = LIMITS) -> Any:
    """The row of one good record, an object to pack."""
    decoded = Decoder(limits).decode([msgpack.packb(message)])
    assert decoded.reasons.tolist() == [Reason.OK]
    return rows_of(decoded)[0]


# Values that msgpack can hold, in shapes near those of an example.
_numbers = st.integers(-(2**63), 2**64 - 1) | st.floats() | st.booleans() | st.integers(-3, 3)
_scalars = _numbers | st.none() | st.text(max_size=40) | st.binary(max_size=20)
_names = st.sampled_from(["a", "f12", "f12345", "indices", "values", ""]) | st.text(max_size=40)
_named = st.dictionaries(_names, _numbers, max_size=9)
_packed = st.integers(0, 9).flatmap(
    lambda count: st.fixed_dictionaries(
        {"indices": st.binary(min_size=4 * count, max_size=4 * count) | st.binary(max_size=80)},
        optional={
            "values": st.lists(st.floats(width=32), min_size=count, max_size=count).map(
                lambda numbers: struct.pack(f"<{len(numbers)}f", *numbers)
            )
        },
    )
)
_anything = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3), max_leaves=12
)
_examples = st.fixed_dictionaries(
    {"features": _named | st.dictionaries(_names, _named, max_size=4) | _packed | _anything},
    optional={
        "label": _numbers | st.none() | st.sampled_from([0, 1, -1, 0.5]),
        "weight": _numbers | st.sampled_from([0, 1, 2.5]),
        "id": st.text() | st.binary() | _numbers,
        "extra": _anything,
    },
)


@st.composite
def _values(draw: st.DrawFn) -> bytes | None:
    """A record: null, arbitrary bytes, or an example, perhaps with a splice of bytes in it."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.none() | st.binary(max_size=60))
    packed: bytes = msgpack.packb(draw(_examples if kind < 9 else _anything))
    if kind < 6:
        return packed
    start = draw(st.integers(0, len(packed)))
    stop = draw(st.integers(start, min(len(packed), start + 8)))
    return packed[:start] + draw(st.binary(max_size=4)) + packed[stop:]


@settings(max_examples=2000)
@given(st.lists(_values(), min_size=1, max_size=4))
def test_decoder_and_oracle_agree_on_any_bytes(values: list[bytes | None]) -> None:
    """Whatever the bytes: accepted if and only if the oracle accepts them, same row to the bit, same reason."""
    for decoder, limits in DECODERS:
        assert disagreement(decoder, values, limits) is None


@pytest.mark.parametrize("seed", range(4))
def test_decoder_and_oracle_agree_on_mutated_examples(seed: int) -> None:
    """Agreement on examples in all of msgpack's encodings, and on their mutations, alone and in batches."""
    compare(seed, 8000)


def test_the_compared_records_have_every_fault() -> None:
    """The comparison is not empty: every reason that the decoder can give comes up, and so do good records."""
    verdicts = (judge(value, LIMITS) for value in islice(records(1), 20000))
    counts = Counter(verdict.reason for verdict in verdicts if verdict.exact)
    decoders = [reason for reason in Reason if reason not in {Reason.BAD_TIMESTAMP, Reason.FAR_FUTURE}]
    assert {reason for reason in decoders if counts[reason] < 5} == set()
    assert counts[Reason.OK] > 2000


def _run(script: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_read_or_write_leaves_the_arrays(tmp_path: Path) -> None:
    """With Numba's bounds checks on, no index is out of bounds: records alone end where the buffer ends."""
    # The cache is private, because a kernel compiled without the checks would be taken from a shared one.
    _run(
        "import numpy, wire_records\n"
        "from stream_apple.core.msgpack_reader import byte\n"
        "try:\n"
        "    byte(numpy.zeros(1, numpy.uint8), 1)\n"
        "    raise SystemExit('bounds are not checked')\n"
        "except IndexError:\n"
        "    pass\n"
        "wire_records.compare(21, 4000)\n",
        NUMBA_BOUNDSCHECK="1",
        NUMBA_CACHE_DIR=str(tmp_path),
    )


def test_the_kernels_are_python_too() -> None:
    """Without the compiler the same code gives the same rows, so that coverage and a debugger can be trusted."""
    _run(
        "import numpy, wire_records\nwith numpy.errstate(over='ignore'):\n    wire_records.compare(22, 700)\n",
        NUMBA_DISABLE_JIT="1",
    )


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_do_not_matter(seed: int) -> None:
    """What becomes of a record is the same alone, at the end of a buffer, and between any neighbours."""
    decoder = Decoder(LIMITS)
    neighbours: list[bytes | None] = [b"", b"\x00" * 9, b"\xff" * 9, b"\xc3" * 300, b"a" * 9, None]
    for value in islice(records(seed), 1500):
        alone = decoder.decode([value])
        rows, fault = rows_of(alone), (alone.reasons[0], alone.places[0])
        for neighbour in neighbours:
            among = decoder.decode([neighbour, value, neighbour])
            assert (among.reasons[1], among.places[1]) == fault
            found = [row for row, record in zip(rows_of(among), among.rows, strict=True) if record == 1]
            assert repr(found) == repr(rows)


def test_every_truncation_is_refused() -> None:
    """A record cut anywhere is a dead letter: no prefix of an example is an example."""
    source = records(31)
    whole = [value for value in islice(source, 600) if value and judge(value, LIMITS).row is not None]
    decoder = Decoder(LIMITS)
    for value in whole[:60]:
        decoded = decoder.decode([value[:size] for size in range(len(value))])
        assert decoded.rows.size == 0
        assert Reason.OK not in decoded.reasons


@pytest.mark.parametrize("tag", range(256))
def test_a_value_cut_short_is_refused(tag: int) -> None:
    """Whatever type the last value of a record claims to have, it is read only if it is there in full."""
    head, decoder = b"\x81\xa8features\x81\xa1a", Decoder(LIMITS)
    values: list[bytes | None] = [head + bytes([tag]) + b"\x01" * size for size in range(12)]
    assert disagreement(decoder, values, LIMITS) is None
    assert all(disagreement(decoder, [value], LIMITS) is None for value in values)


def test_ids_are_utf8_where_python_says_so() -> None:
    """At every edge of UTF-8 (overlong forms, surrogates, the last code point) an id is judged as by Python."""
    edges = b"\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xed\xee\xef\xf0\xf4\xf5\xff"
    names = [bytes(name) for size in (1, 2, 3) for name in product(edges, repeat=size)]
    names += [bytes(name) for name in product(b"\xe0\xed\xf0\xf1\xf4\xf5", edges, b"\x80\xc0", b"\x7f\x80\xbf")]

    def is_utf8(name: bytes) -> bool:
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
        return True

    records_of = [b"\x82\xa2id" + bytes([0xA0 + len(name)]) + name + b"\xa8features\x81\xa1a\x01" for name in names]
    reasons = Decoder(LIMITS).decode(records_of).reasons
    expected = [Reason.OK if is_utf8(name) else Reason.BAD_ID for name in names]
    assert reasons.tolist() == expected
    assert 1000 < expected.count(Reason.BAD_ID) < len(names) - 100


def test_a_batch_is_its_records_one_by_one() -> None:
    """How records are grouped into batches changes nothing."""
    values = list(islice(records(41), 400))
    decoder = Decoder(LIMITS)
    together = decoder.decode(values)
    expected, reasons = repr(rows_of(together)), together.reasons.tolist()
    one_by_one = [decoder.decode([value]) for value in values]
    assert [int(decoded.reasons[0]) for decoded in one_by_one] == reasons
    assert repr([row for value in values for row in rows_of(decoder.decode([value]))]) == expected


def test_no_records_are_an_empty_batch() -> None:
    """An empty fetch decodes to a batch without rows."""
    decoded = Decoder(LIMITS).decode([])
    assert decoded.batch.indptr.tolist() == [0]
    assert decoded.rows.size == decoded.reasons.size == decoded.batch.keys.size == 0


def test_arrays_have_the_types_of_a_batch() -> None:
    """The batch has the dtypes and shapes that the learner is compiled for."""
    batch, rows, reasons, places, _, ids = Decoder(LIMITS).decode([msgpack.packb({"features": A_FEATURE}), None])
    found = [array.dtype.str for array in (*batch, rows, reasons, places, ids)]
    assert found == ["<i8", "<u8", "<f4", "<f8", "<f8", "<i8", "|u1", "<i8", "<i8"]
    assert (batch.indptr.size, rows.size, reasons.size, places.size, ids.shape) == (2, 1, 2, 2, (1, 2))


def test_memory_stays_when_batches_get_smaller_or_repeat() -> None:
    """The scratch grows to the largest batch and is reused, not made anew."""
    decoder = Decoder(LIMITS)
    value = msgpack.packb({"features": {"a": 1, "b": 2}})
    first = decoder.decode([value] * 100).batch.keys
    assert all(np.shares_memory(first, decoder.decode([value] * count).batch.keys) for count in (1, 50, 100))


def test_scratch_is_bounded_by_the_limits() -> None:
    """A record that is too large, or claims too many features, reserves no memory for what it claims."""
    decoder = Decoder(LIMITS)
    decoder.decode([b"\xdf\xff\xff\xff\xff", bytes(1_000_000), msgpack.packb({"features": {"a": 1}})] * 3)
    assert decoder._keys.size <= 3 * (2 + LIMITS.max_features)


@pytest.mark.parametrize("size", [*range(40), 63, 64, 65, 100, 150])
def test_names_are_hashed_by_xxh64(size: int) -> None:
    """Keys of names are xxhash's, for every way through the algorithm, with and without a namespace."""
    name = bytes(33 + index % 90 for index in range(size))
    assert feature_key(name) == xxhash.xxh64_intdigest(name)
    seed = xxhash.xxh64_intdigest(b"space")
    assert feature_key(name.decode(), "space") == xxhash.xxh64_intdigest(name, seed)
    row = row_of({"features": {"space": {name.decode(): 1}, "": {name.decode(): 1}}})
    assert (
        row.keys == [feature_key(name, "space"), feature_key(name)] == [key_of_name(name, b"space"), key_of_name(name)]
    )


def test_no_key_is_zero() -> None:
    """Key 0 marks a free slot in the learner's table: index 0, which the mixing maps to 0, gets another."""
    assert index_key(0) == 0x9E3779B97F4A7C15
    assert [index_key(index) for index in (1, 7, 2**32, 2**64 - 1)] == [
        key_of_index(index) for index in (1, 7, 2**32, 2**64 - 1)
    ]


def test_indices_of_32_and_64_bits_are_the_same_features() -> None:
    """A packed feature is its number, whatever its width."""
    ones = struct.pack("<3f", 1, 1, 1)
    wide, narrow = struct.pack("<3Q", 0, 7, 2**32 - 1), struct.pack("<3I", 0, 7, 2**32 - 1)
    rows = [
        row_of({"features": features}).keys
        for features in (
            {"indices": wide},
            {"indices": wide, "values": ones},
            {"values": ones, "indices": narrow},
        )
    ]
    assert rows[0] == rows[1] == rows[2] == [index_key(index) for index in (0, 7, 2**32 - 1)]


def test_a_feature_of_value_zero_is_dropped_and_the_example_kept() -> None:
    """Zeros, and what is zero in 32 bits, are no features; an example of nothing else is still one to learn."""
    assert row_of({"features": {"a": 0, "b": 2, "c": 0.0, "d": False, "e": 1e-60}}).values == [2.0]
    assert row_of({"features": {"a": 0, "b": False}}).keys == []
    assert row_of({"features": {"ns": {"a": 0}, "empty": {}}}).keys == []


def test_labels_of_the_logistic_loss() -> None:
    """With `binary`, 1, -1 and 0 (for -1) are labels, in any number type, and nothing else is."""
    labels = [row_of({"label": label, "features": A_FEATURE}, BINARY).label for label in (1, -1, 0, 1.0, 0.0, -0.0)]
    assert labels == [1, -1, -1, 1, -1, -1]
    assert {reason_of({"label": label, "features": A_FEATURE}, BINARY) for label in (0.5, 2, -2, float("nan"))} == {
        Reason.BAD_LABEL
    }


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"\xc1", Reason.MALFORMED),
        (b"\x81\xa8features\x81\xa1a\x01\x00", Reason.MALFORMED),
        (b"\x81\xa8features\xdf\xff\xff\xff\xff\xa1a\x01", Reason.TOO_MANY_FEATURES),
        (b"\x81\xa8features\x81\xdb\xff\xff\xff\xffa\x01", Reason.MALFORMED),
        (b"\xdf\xff\xff\xff\xff\xa1a\x01", Reason.MALFORMED),
        (b"\x82\xa1x\xd4\xff\x00\xa8features\x81\xa1a\x01", Reason.MALFORMED),
        (b"\x82\xa1x\xd7\xff" + b"\xff" * 8 + b"\xa8features\x81\xa1a\x01", Reason.MALFORMED),
        ([], Reason.WRONG_TYPE),
        (None, Reason.WRONG_TYPE),
        ({5: 1, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({b"label": 1, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"features": 1}, Reason.WRONG_TYPE),
        ({"features": [1]}, Reason.WRONG_TYPE),
        ({"features": None}, Reason.WRONG_TYPE),
        ({"features": {"a": None}}, Reason.WRONG_TYPE),
        ({"features": {"a": "1"}}, Reason.WRONG_TYPE),
        ({"features": {5: 1}}, Reason.WRONG_TYPE),
        ({"features": {"a": 1, "ns": {"b": 1}}}, Reason.WRONG_TYPE),
        ({"features": {"ns": {"b": 1}, "a": 1}}, Reason.WRONG_TYPE),
        ({"features": {"ns": {"b": {"c": 1}}}}, Reason.WRONG_TYPE),
        ({"features": {"indices": bytes(8), "a": 1}}, Reason.WRONG_TYPE),
        ({"features": {"values": bytes(4)}}, Reason.WRONG_TYPE),
        ({"features": {"indices": bytes(7)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(4)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(8), "values": bytes(3)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(24), "values": bytes(8)}}, Reason.MALFORMED),
        ({"features": {}}, Reason.NO_FEATURES),
        ({"features": {"ns": {}}}, Reason.NO_FEATURES),
        ({"features": {"indices": b""}}, Reason.NO_FEATURES),
        ({"label": 1}, Reason.NO_FEATURES),
        ({}, Reason.NO_FEATURES),
        ({"features": dict.fromkeys("abcdefghi", 0)}, Reason.TOO_MANY_FEATURES),
        ({"features": {"x": dict.fromkeys("abcde", 1), "y": dict.fromkeys("abcd", 1)}}, Reason.TOO_MANY_FEATURES),
        ({"features": {"indices": bytes(72)}}, Reason.TOO_MANY_FEATURES),
        ({"features": {"a": float("nan")}}, Reason.BAD_VALUE),
        ({"features": {"a": 1e39}}, Reason.BAD_VALUE),
        ({"features": {"indices": bytes(4), "values": b"\x00\x00\x80\x7f"}}, Reason.BAD_VALUE),
        ({"label": 11, "features": A_FEATURE}, Reason.BAD_LABEL),
        ({"label": float("-inf"), "features": A_FEATURE}, Reason.BAD_LABEL),
        ({"label": "1", "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"label": True, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"weight": -0.1, "features": A_FEATURE}, Reason.BAD_WEIGHT),
        ({"weight": 101, "features": A_FEATURE}, Reason.BAD_WEIGHT),
        ({"weight": float("nan"), "features": A_FEATURE}, Reason.BAD_WEIGHT),
        ({"weight": None, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"id": None, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"id": 1.5, "features": A_FEATURE}, Reason.WRONG_TYPE),
        (b"\x82\xa2id\xa2\xc3(\xa8features\x81\xa1a\x01", Reason.BAD_ID),
        (b"\x82\xa5label\x01\xa5label\x01", Reason.DUPLICATE_KEY),
        (b"\x81\xa8features\x82\xa7indices\xc4\x08" + bytes(8) + b"\xa7indices\xc4\x00", Reason.DUPLICATE_KEY),
        (bytes(401), Reason.RECORD_TOO_LARGE),
    ],
)
def test_reason(message: Any, reason: Reason) -> None:
    """Each kind of bad record has its reason."""
    assert reason_of(message) == reason


@pytest.mark.parametrize("limits", [LIMITS, LIMITS._replace(min_label=-np.inf, max_label=np.inf, max_weight=np.inf)])
def test_infinities_are_refused_whatever_the_range(limits: Limits) -> None:
    """A range without bounds still holds only numbers."""
    for number in (np.inf, -np.inf, np.nan):
        assert reason_of({"label": number, "features": A_FEATURE}, limits) == Reason.BAD_LABEL
        assert reason_of({"weight": number, "features": A_FEATURE}, limits) == Reason.BAD_WEIGHT


@pytest.mark.parametrize("depth", [14, 15, 16])
@pytest.mark.parametrize("wrap", [lambda item: [item], lambda item: {"k": item}, lambda item: Pairs([(item, 1)])])
def test_nesting_is_limited_to_16(depth: int, wrap: Any) -> None:
    """An unknown value may be 15 deep, the example around it making it 16."""
    item: Any = []
    for _ in range(depth - 1):
        item = wrap(item)
    expected = Reason.OK if depth <= 15 else Reason.TOO_DEEP
    assert reason_of(b"\x82\xa8features\x81\xa1a\x01\xa1x" + _pack(item)) == expected


def _pack(item: Any) -> bytes:
    """Like packb, with maps whose keys are maps."""
    if isinstance(item, Pairs):
        return b"\x81" + b"".join(_pack(key) + _pack(inner) for key, inner in item)
    packed: bytes = msgpack.packb(item)
    return packed


def test_an_example_at_the_limits_is_good() -> None:
    """The limits themselves are allowed: bytes, features, label, weight."""
    base = {"features": dict.fromkeys("abcdefgh", 1), "label": 10, "weight": 100, "pad": b""}
    room = LIMITS.max_record_bytes - len(msgpack.packb({**base, "pad": bytes(256)})) + 256
    message = msgpack.packb({**base, "pad": bytes(room)})
    assert len(message) == LIMITS.max_record_bytes
    assert reason_of(message) == Reason.OK
    assert reason_of(message + b"\x00") == Reason.RECORD_TOO_LARGE


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"features": {"a": 1}, "label": "x"}, "expected a number or nil, found a str: 'x', at byte 20, in 'label'"),
        (
            {"features": {"a": 1}, "label": 99},
            "expected a label from -10 to 10, found a number: 99, at byte 20, in 'label'",
        ),
        (["x"], "expected a msgpack map, found an array, at byte 0"),
        ({"label": 1}, "expected at least one feature, found the end of the record, at byte 8"),
        (b"\x81\xa8features\x81\xa1a\x01\xc0", "expected the end of the record, found nil, at byte 14"),
        (
            b"\x81\xa8features\x81\xa1a",
            "expected a whole msgpack value, found the end of the record, at byte 13, in 'features'",
        ),
        (
            {"features": {"a": 1e40}},
            "expected a value that is finite as a 32-bit float, found a number: 1e+40, at byte 13, in 'features'",
        ),
        (None, "expected a msgpack map, found a null value"),
        (bytes(500), "expected at most 400 bytes, found 500"),
    ],
)
def test_an_explanation_has_what_was_expected_and_found_and_where(message: Any, expected: str) -> None:
    """A person can tell from the message what to change in the producer."""
    value = message if isinstance(message, bytes | None) else msgpack.packb(message)
    decoded = Decoder(LIMITS).decode([value])
    assert explain(Reason(int(decoded.reasons[0])), int(decoded.places[0]), value, LIMITS) == expected


def test_every_fault_can_be_explained() -> None:
    """Whatever the bytes, the explanation is a line of ASCII of bounded length, and never an error itself."""
    for (decoder, limits), seed in zip(DECODERS, (51, 52), strict=True):
        values = list(islice(records(seed), 6000))
        decoded = decoder.decode(values)
        for value, reason, place in zip(values, decoded.reasons.tolist(), decoded.places.tolist(), strict=True):
            if reason != Reason.OK:
                text = explain(Reason(reason), place, value, limits)
                assert text.startswith("expected ")
                assert ", found " in text
                assert text.isascii()
                assert text.isprintable()
                assert len(text) < 1000
