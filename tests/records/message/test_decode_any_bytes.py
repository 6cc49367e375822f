"""Whatever bytes a record has, the decoder agrees with its oracle and stays within its arrays."""

import os
import struct
import subprocess
import sys
from collections import Counter
from itertools import islice, product
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles.wire import BINARY, JOINERS, LIMITS, disagreement, judge, rows_of
from support.oracles.wire_records import compare, records

from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.reasons import Reason

TESTS = Path(__file__).resolve().parents[2]
COLUMNS = (frozenset({"spaces", "attributes"}), frozenset[str]())
DECODERS = [(Decoder(limits, columns), limits) for limits in (LIMITS, BINARY) for columns in COLUMNS]
A_FEATURE = {"a": 1}


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


@pytest.mark.parametrize("examples", [200, pytest.param(2000, marks=pytest.mark.long)])
def test_decoder_and_oracle_agree_on_any_bytes(examples: int) -> None:
    """Whatever the bytes: accepted if and only if the oracle accepts them, same row to the bit, same reason."""

    @settings(max_examples=examples)
    @given(st.lists(_values(), min_size=1, max_size=4))
    def agree(values: list[bytes | None]) -> None:
        for decoder, limits in DECODERS:
            assert disagreement(decoder, values, limits) is None

    agree()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_decoder_and_oracle_agree_on_mutated_examples(seed: int) -> None:
    """Agreement on examples in all of msgpack's encodings, and on their mutations, alone and in batches."""
    compare(seed, 8000)


def test_the_compared_records_have_every_fault() -> None:
    """The comparison is not empty: every reason that the decoder can give comes up, and so do good records."""
    verdicts = (judge(value, LIMITS) for value in islice(records(1), 20000))
    counts = Counter(verdict.reason for verdict in verdicts if verdict.exact)
    others = {Reason.BAD_TIMESTAMP, Reason.FAR_FUTURE, Reason.SKIPPED, *JOINERS}
    decoders = [reason for reason in Reason if reason not in others]
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


@pytest.mark.long
def test_no_read_or_write_of_machine_code_leaves_the_arrays(tmp_path: Path) -> None:
    """With Numba's bounds checks on, as NumPy says of the same code without the compiler, on more records."""
    # The cache is private, because a kernel compiled without the checks would be taken from a shared one.
    _run(
        "import numpy; from support.oracles import wire_records\n"
        "from stream_apple.records.message.msgpack_reader import byte\n"
        "from support.from_python import from_python\n"
        "try:\n"
        "    from_python(byte)(numpy.zeros(1, numpy.uint8), 1)\n"
        "    raise SystemExit('bounds are not checked')\n"
        "except IndexError:\n"
        "    pass\n"
        "wire_records.compare(21, 4000)\n",
        NUMBA_BOUNDSCHECK="1",
        NUMBA_CACHE_DIR=str(tmp_path),
    )


def test_the_kernels_are_python_too_and_stay_within_the_arrays() -> None:
    """Without the compiler the same code gives the same rows, so that coverage and a debugger can be trusted.

    NumPy then looks at every index: none is out of bounds, and records alone end where the buffer ends.
    """
    _run(
        "import numpy\nfrom support.oracles import wire_records\n"
        "from stream_apple.records.message.msgpack_reader import byte\n"
        "try:\n"
        "    byte(numpy.zeros(1, numpy.uint8), 1)\n"
        "    raise SystemExit('bounds are not checked')\n"
        "except IndexError:\n"
        "    pass\n"
        "with numpy.errstate(over='ignore'):\n    wire_records.compare(22, 1000)\n",
        NUMBA_DISABLE_JIT="1",
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
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
    batch, rows, reasons, places, _, ids, *_ = Decoder(LIMITS).decode([msgpack.packb({"features": A_FEATURE}), None])
    found = [array.dtype.str for array in (*batch[:5], rows, reasons, places, ids)]
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
    assert decoder._scratch.keys.size <= 3 * (2 + LIMITS.max_features)
