"""Whatever a record holds, what is published about it fits: a prediction, or a dead letter, whole or not."""

import random
from collections.abc import Sequence
from typing import NoReturn

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import SETTINGS, START, FakeRecord, good, new_model, process_in_batches

from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.message_size import (
    largest_dead_letter,
    largest_prediction,
    message_bytes,
)
from stream_apple.records.message.prediction_formats import MSGPACK
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.dead_letters import Reject, dead_letter, header_list
from stream_apple.stream.model.partition_model import BatchResult, ModelSettings, PartitionModel
from stream_apple.stream.positions.lineage import Lineage

LIMIT = 1_000_000
MODEL = "0123456789abcdef"


class Unreadable(FakeRecord):
    """A record as confluent-kafka gives it if the name of a header is not UTF-8."""

    asked = 0

    def headers(self) -> NoReturn:
        """Asked a second time, it would give what ends the process."""
        self.asked += 1
        assert self.asked == 1
        raise SystemError("returned a result with an exception set")

    def set_headers(self, headers: object) -> None:
        """Take those that replace them."""
        assert headers == []


def settings_of(max_record_bytes: int) -> ModelSettings:
    """With this limit."""
    return SETTINGS._replace(limits=SETTINGS.limits._replace(max_record_bytes=max_record_bytes))


def model_of(max_record_bytes: int = LIMIT) -> PartitionModel:
    """A model that takes records of this size."""
    chosen = settings_of(max_record_bytes)
    return PartitionModel("examples", 0, Lineage(0, MODEL), chosen, Decoder(chosen.limits))


def example(at: int, key_bytes: int, id_bytes: int, header_bytes: int = 0) -> FakeRecord:
    """An example with a key, an id and a header of these sizes, which do not compress."""
    draw = random.Random(at)
    value = msgpack.packb({"id": draw.randbytes(id_bytes), "label": 1.0, "features": {"a": 1.0, "b": 0.5}})
    headers = [("trace", draw.randbytes(header_bytes))] if header_bytes else None
    return FakeRecord(0, at, value, START, draw.randbytes(key_bytes), headers)


def id_bytes(size: int) -> int:
    """Of the msgpack of such an id."""
    return len(msgpack.packb(bytes(size)))


def outcomes(result: BatchResult) -> list[int]:
    """Offsets that have a prediction."""
    return [record.offset() for record in result.examples]


class TestPredictions:
    """One that a topic would refuse is never made."""

    @pytest.mark.parametrize(("key", "identifier"), [(1_048_400, 4), (214_000, 900_000), (60_000, 990_000)])
    def test_a_record_whose_prediction_would_not_fit_is_refused(self, key: int, identifier: int) -> None:
        """It is a dead letter that says so; those around it are answered as if it had not been."""
        records = [good(0), example(1, key, identifier), good(2)]
        (result,) = process_in_batches(model_of(), records)
        assert outcomes(result) == [0, 2]
        (reject,) = result.rejects
        assert (reject.record, reject.reason) == (records[1], Reason.RECORD_TOO_LARGE)
        most = MSGPACK.largest_key_and_id(LIMIT)
        expected = f"expected a key and an id of at most {most} bytes together, found a key of {key}"
        assert reject.message.startswith(expected)
        (without,) = process_in_batches(model_of(), [records[0], records[2]])
        assert result.predictions == without.predictions

    def test_up_to_its_bound_all_is_answered(self) -> None:
        """The last byte that fits, and the first that does not; what the model has learned is the first alone."""
        most = MSGPACK.largest_key_and_id(LIMIT)
        size = 900_000
        fits, not_any_more = (example(at, most - id_bytes(size) + at, size) for at in (0, 1))
        model, other = model_of(), model_of()
        (result,) = process_in_batches(model, [fits, not_any_more])
        assert outcomes(result) == [0]
        (prediction,) = result.predictions
        assert message_bytes(fits.key(), prediction) <= largest_prediction(LIMIT)
        process_in_batches(other, [fits])
        assert model.learner.digest() == other.learner.digest()

    def test_its_timestamp_is_not_looked_at(self) -> None:
        """What is refused can't move the clock."""
        late = example(1, 1_048_400, 0)._replace(time_ms=START + 3_600_000)
        model = model_of()
        process_in_batches(model, [good(0), late])
        assert model.clock.watermark_ms == START

    def test_whatever_the_batches(self) -> None:
        """Alone, and among others, in the first life and in a replay."""
        records = [good(0), example(1, 1_048_400, 8), example(2, 10, 8), good(3)]
        whole, cut, again = model_of(), model_of(), model_of()
        again.publish_from = 3
        for model, cuts in ((whole, []), (cut, [1, 2, 3]), (again, [2])):
            process_in_batches(model, records, cuts)
        assert len({model.digest() for model in (whole, cut, again)}) == 1

    def test_larger_limits_let_more_in(self) -> None:
        """Who raises the limit of records has said how large predictions may be."""
        record = example(0, 214_000, 900_000)
        (result,) = process_in_batches(model_of(4_000_000), [record])
        assert outcomes(result) == [0]


class TestDeadLetters:
    """They always fit."""

    def test_one_that_fits_repeats_the_record(self) -> None:
        """Key, value and headers as they were."""
        record = example(0, 1_000_000, 20_000, 10_000)
        letter = dead_letter(Reject(record, Reason.BAD_LABEL, "m"), "examples", MODEL, LIMIT)
        assert (letter.key, letter.value) == (record.key(), record.value())
        assert letter.headers[0] == header_list(record)[0]

    def test_one_that_does_not_has_its_headers_alone(self) -> None:
        """Where it comes from, and how much is left out, is still said."""
        record = example(7, 300_000, 900_000, 50_000)
        letter = dead_letter(Reject(record, Reason.BAD_LABEL, "m"), "examples", MODEL, LIMIT)
        assert (letter.key, letter.value) == (None, None)
        told = {name.removeprefix("__stream_apple.errors."): text for name, text in letter.headers}
        assert told.pop("omitted") == b"%d" % message_bytes(record.key(), record.value(), header_list(record))
        assert told == {
            "reason": b"bad_label",
            "message": b"m",
            "topic": b"examples",
            "partition": b"0",
            "offset": b"7",
            "model": MODEL.encode(),
        }

    def test_a_message_quotes_no_name_of_any_length(self) -> None:
        """The fault lies in the value of a key of half a megabyte, of which each byte takes four in ASCII."""
        value = b"\x82" + msgpack.packb("\x01" * 500_000) + b"\xc1" + msgpack.packb("x") + b"\x01"
        (result,) = process_in_batches(model_of(), [FakeRecord(0, 0, value, START, b"k")])
        (reject,) = result.rejects
        assert len(reject.message) < 200
        letter = dead_letter(reject, "examples", MODEL, LIMIT)
        assert dict(letter.headers)["__stream_apple.errors.message"] == reject.message.encode()
        assert letter.value == value

    def test_headers_whose_names_are_no_text(self) -> None:
        """The client can't give them, and must not be asked twice: the rest is published, and says what is left out."""
        for size in (10, 1_200_000):
            record = Unreadable(0, 0, bytes(size), START, b"k")
            letter = dead_letter(Reject(record, Reason.MALFORMED, "m"), "examples", MODEL, LIMIT)
            assert letter.value == (bytes(size) if size == 10 else None)
            told = dict(letter.headers)["__stream_apple.errors.message"]
            assert told == b"m; its headers are left out: expected names in UTF-8, found others"

    @pytest.mark.parametrize("size", [4_093, 4_094, 4_096])
    def test_a_long_message_is_cut_between_letters(self, size: int) -> None:
        """What is left is UTF-8."""
        letter = dead_letter(Reject(good(0), Reason.BAD_LABEL, "m" * size + "é" * 9), "examples", MODEL, LIMIT)
        told = dict(letter.headers)["__stream_apple.errors.message"]
        assert isinstance(told, bytes)
        assert len(told) <= 4_096
        assert told.decode().startswith("m" * 4_000)


SIZES = st.one_of(st.integers(0, 100), st.integers(0, 1_200_000), st.integers(1_040_000, 1_060_000))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=3),
    st.sampled_from([400, LIMIT, 2_000_000]),
    st.booleans(),
)
def test_every_output_of_any_records_fits(sizes: Sequence[tuple[int, int, int]], limit: int, broken: bool) -> None:  # noqa: FBT001
    """Of each record there is one output, in the size that its topic is asked to take."""
    records = [example(at, *each) for at, each in enumerate(sizes)]
    if broken:
        records = [record._replace(payload=(record.payload or b"") + b"\xc1") for record in records]
    (result,) = process_in_batches(model_of(limit), records)
    assert len(result.predictions) + len(result.rejects) == len(records)
    for record, prediction in zip(result.examples, result.predictions, strict=True):
        assert message_bytes(record.key(), prediction) <= largest_prediction(limit)
    for reject in result.rejects:
        letter = dead_letter(reject, "t" * 249, MODEL, limit)
        assert message_bytes(letter.key, letter.value, letter.headers) <= largest_dead_letter(limit)


def test_small_limits_bound_no_key() -> None:
    """Kafka's own default is the least that is asked of a topic, so keys may be large where values may not."""
    (result,) = process_in_batches(new_model(), [example(0, 1_000_000, 8)])
    assert outcomes(result) == [0]
