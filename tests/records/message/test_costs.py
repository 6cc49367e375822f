"""What the largest records cost, whatever they hold: memory for what they become, and no Python for each part.

Time is not measured here: what takes long for many small things is Python, whose calls can be counted.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import msgpack
import pytest

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_names import names_in
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

SIZE = 1_000_000
LIMITS = Limits(4096, SIZE, 1e6, -1e9, 1e9, binary=False)
DECODER = Decoder(LIMITS)
GOOD = b'"label": 1, "features": {"a": 1}'
RECORDS = 4
MOST_CALLS = 400
SPARE = 200_000


def filled(before: bytes, item: bytes, after: bytes, between: bytes = b",") -> bytes:
    """A record of nearly SIZE bytes."""
    count = (SIZE - len(before) - len(after)) // (len(item) + len(between))
    return before + between.join([item] * count) + after


def packed(key: bytes, item: bytes, header: int = 0xDD, items: int = 1) -> bytes:
    """The same in msgpack: `header` of an array or a map of `items` values each."""
    tail: bytes = msgpack.packb({"label": 1, "features": {"a": 1}})[1:]
    count = (SIZE - len(tail) - 20) // (len(item) * items)
    return b"\x83" + key + bytes([header]) + count.to_bytes(4) + item * (count * items) + tail


ACCEPTED = {
    "nil": packed(b"\xa1x", b"\xc0"),
    "arrays": packed(b"\xa1x", b"\x90"),
    "maps": packed(b"\xa1x", b"\x80", 0xDF, 2),
    "extensions": packed(b"\xa1x", b"\xd4\x05\x00"),
    "floats": packed(b"\xa1x", b"\xcb" + bytes(8)),
}
REFUSED = {
    "a str": msgpack.packb({"features": {}, "label": "x" * (SIZE - 100)}),
    "an array as key": b"\x81\xdd" + (SIZE - 10).to_bytes(4) + b"\x90" * (SIZE - 10) + b"\x01",
    "an array as features": b"\x81\xa8features\xdd" + (SIZE - 20).to_bytes(4) + b"\x90" * (SIZE - 20),
    "cut short": packed(b"\xa1x", b"\x90")[:-1],
    "no msgpack": b"n" * SIZE,
}
JSON = {
    "numbers": filled(b'{"x": [', b"0.5", b"], " + GOOD + b"}"),
    "maps": filled(b'{"x": [', b'{"":0}          ', b"], " + GOOD + b"}"),
    "a key": b'{"%s": 1e300, %s}' % (b"k" * (SIZE - 100), GOOD),
    "space": b"{" + b" " * (SIZE - 100) + GOOD + b"}",
    "a label": filled(b'{"label": [', b"1e300", b"]}"),
    "values": filled(b'{"features": {"a": [', b"1e300", b"]}}"),
    "too many": b'{"features": {' + b",".join(b'"%x":0.5' % number for number in range(SIZE // 12)) + b"}}",
    "text": b'{"label": "%s"}' % (b"x" * (SIZE - 100)),
    "a number": b'{"label": %s}' % (b"9" * (SIZE - 100)),
    "cut short": filled(b'{"x": [', b"0.5", b"], " + GOOD),
    "a key and a fault": b'{"%s": x}' % (b"k" * (SIZE - 100)),
}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions Python calls, its own or of C; not those that others let the garbage collector call."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes that Python and NumPy have had at once for it; what is kept for good has been made before."""
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_a_record_costs_what_its_bytes_do(name: str) -> None:
    """They are joined once: that is all."""
    record = ACCEPTED[name] if name in ACCEPTED else REFUSED[name]
    batch = [record] * RECORDS
    assert (DECODER.decode([record]).reasons[0] == Reason.OK) == (name in ACCEPTED)
    assert peak_of(lambda: DECODER.decode(batch)) < SIZE * RECORDS + SPARE
    assert calls_of(lambda: DECODER.decode(batch)) < MOST_CALLS


@pytest.mark.parametrize("name", REFUSED)
def test_an_explanation_costs_what_the_bytes_do(name: str) -> None:
    """What is said of a large record that can't be used is found without looking at each of its parts in Python."""
    record = REFUSED[name]
    decoded = DECODER.decode([record])
    reason, place = Reason(int(decoded.reasons[0])), int(decoded.places[0])
    assert peak_of(lambda: explain(reason, place, record, LIMITS)) < 5 * SIZE
    assert calls_of(lambda: explain(reason, place, record, LIMITS)) < MOST_CALLS
    assert len(explain(reason, place, record, LIMITS)) < 400


@pytest.mark.parametrize("name", JSON)
def test_a_record_of_json_costs_what_its_objects_do(name: str) -> None:
    """These are made for one record at a time, and no more is called for each of its parts."""
    record = JSON[name]
    batch = [record] * RECORDS
    decoded = DECODER.decode([record])
    assert peak_of(lambda: DECODER.decode(batch)) < 50_000_000
    assert calls_of(lambda: DECODER.decode(batch)) < MOST_CALLS
    if decoded.reasons[0]:
        reason, place = Reason(int(decoded.reasons[0])), int(decoded.places[0])
        assert peak_of(lambda: explain(reason, place, record, LIMITS)) < 50_000_000
        assert calls_of(lambda: explain(reason, place, record, LIMITS)) < MOST_CALLS
        assert len(explain(reason, place, record, LIMITS)) < 400


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_names_cost_what_features_do(name: str) -> None:
    """Whoever notes names makes nothing of the rest of an example."""
    record = ACCEPTED[name] if name in ACCEPTED else REFUSED[name]
    assert peak_of(lambda: list(names_in(record))) < 8 * SIZE
    if name in ACCEPTED:
        assert [found for _, found in names_in(record)] == ["a"]


def test_features_beyond_all_limits_have_no_names() -> None:
    """Neither in one map nor in many, and packed ones neither."""
    spaces = {f"s{number}": dict.fromkeys(map(str, range(20)), 1) for number in range(4000)}
    for features in (spaces, dict.fromkeys(map(str, range(70_000)), 1), {"indices": bytes(8 * 70_000)}):
        record = msgpack.packb({"features": features})
        assert list(names_in(record)) == []
        assert peak_of(lambda record=record: list(names_in(record))) < 40 * len(record)  # type: ignore[misc]
    few = msgpack.packb({"features": dict.fromkeys(map(str, range(3)), 1)})
    assert len(list(names_in(few))) == 3
