"""One partition's model: what a batch of records becomes, and that it does not matter how it is cut."""

import json
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import (
    DECODER,
    HOUR,
    SETTINGS,
    START,
    FakeRecord,
    dead_letter_headers,
    good,
    new_model,
    process_in_batches,
    stream,
)

from stream_apple.errors import ModelError, TooManyRejectsError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.records.times import time_text
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits

RECORDS = stream(600, seed=1)


def published(results: list[BatchResult]) -> list[tuple[Any, ...]]:
    """Everything that a reader could see of `results`, in order, and where each epoch ended."""
    seen: list[tuple[Any, ...]] = []
    for result in results:
        seen += [(r.offset(), p) for r, p in zip(result.examples, result.predictions, strict=True)]
        seen += [(r.record.offset(), r.reason, tuple(dead_letter_headers(r, "examples", "m"))) for r in result.rejects]
        seen += [
            (end.offset, end.epoch, end.growth.added, tuple(end.growth.census.parents.tolist())) for end in result.ends
        ]
    return sorted(seen, key=repr)


def state_of(model: PartitionModel) -> list[Any]:
    """All that the model's next outputs depend on."""
    return [
        model.learner.digest(),
        model.clock.state.tolist(),
        model.rejects.recent.tolist(),
        model.rejects.run,
        model.next_offset,
    ]


def as_json(record: FakeRecord) -> FakeRecord:
    """The same example as JSON, of every second record; what is no example stays as it is."""
    try:
        example = msgpack.unpackb(record.payload or b"")
        text = json.dumps(example).encode() if isinstance(example, dict) else None
    except (ValueError, TypeError):
        text = None
    return record if text is None or record.at % 2 else record._replace(payload=text)


class TestProcess:
    """What becomes of records."""

    def test_json_is_learned_and_answered_as_its_msgpack(self) -> None:
        """A stream of both kinds gives the same predictions, epochs and model to the bit as one of msgpack alone."""
        whole, mixed = new_model(), new_model()
        texts = list(map(as_json, RECORDS))
        assert sum(text.payload != record.payload for text, record in zip(texts, RECORDS, strict=True)) > 200
        found, expected = whole.process(RECORDS), mixed.process(texts)
        assert found.predictions == expected.predictions
        assert [(reject.record.offset(), reject.reason) for reject in found.rejects] == [
            (reject.record.offset(), reject.reason) for reject in expected.rejects
        ]
        assert state_of(whole) == state_of(mixed)

    def test_a_dead_letter_of_json_keeps_it_and_says_where(self) -> None:
        """Value untouched, reason and message in the headers."""
        record = good(0)._replace(payload=b' {"label": 1, "features": {"city": []}}')
        (reject,) = new_model().process([record]).rejects
        assert reject.record.value() == record.payload
        headers = dict(dead_letter_headers(reject, "examples", "m"))
        assert headers["__stream_apple.errors.reason"] == b"wrong_type"
        message = headers["__stream_apple.errors.message"]
        assert isinstance(message, bytes)
        assert message.endswith(b"found an array, in 'city' of 'features'")

    @settings(max_examples=40)
    @given(st.lists(st.integers(0, len(RECORDS)), max_size=30))
    def test_the_result_does_not_depend_on_batch_boundaries(self, cuts: list[int]) -> None:
        """Every byte published, and the model afterwards, equal those of one single batch."""
        whole, cut = new_model(), new_model()
        expected = published(process_in_batches(whole, RECORDS))
        assert published(process_in_batches(cut, RECORDS, cuts)) == expected
        assert state_of(cut) == state_of(whole)

    def test_one_record_at_a_time_equals_one_batch(self) -> None:
        """The extreme case of the property above, always run."""
        whole, single = new_model(), new_model()
        expected = published(process_in_batches(whole, RECORDS))
        assert published(process_in_batches(single, RECORDS, range(len(RECORDS)))) == expected
        assert state_of(single) == state_of(whole)

    @settings(max_examples=20)
    @given(st.integers(0, RECORDS[-1].at + 1), st.lists(st.integers(0, len(RECORDS)), max_size=5))
    def test_replay_learns_everything_and_publishes_only_the_rest(self, publish_from: int, cuts: list[int]) -> None:
        """Outputs from `publish_from` on equal those of the first time; before it there are none."""
        first, again = new_model(), new_model()
        expected = published(process_in_batches(first, RECORDS))
        again.publish_from = publish_from
        results = process_in_batches(again, RECORDS, cuts)
        ends = sum(len(result.ends) for result in results)
        seen = published(results)
        assert [item for item in seen if item[0] >= publish_from] == [
            item for item in expected if item[0] >= publish_from
        ]
        assert len([item for item in seen if item[0] < publish_from]) <= ends
        assert state_of(again) == state_of(first)

    def test_every_record_has_one_outcome(self) -> None:
        """Predictions and rejects together cover each record exactly once, and the sample has both."""
        (result,) = process_in_batches(new_model(), RECORDS)
        rejected = [reject.record.offset() for reject in result.rejects]
        answered = [record.offset() for record in result.examples]
        assert sorted(answered + rejected) == [record.at for record in RECORDS]
        assert {reject.reason for reject in result.rejects} == {
            Reason.NULL_VALUE,
            Reason.MALFORMED,
            Reason.BAD_TIMESTAMP,
            Reason.FAR_FUTURE,
        }

    def test_predictions_name_their_example(self) -> None:
        """Offset, id, epoch and model of each prediction are those of its record."""
        records = [good(5, hours=0.0), good(7, label=None, hours=1.0)]
        (result,) = process_in_batches(new_model(), records)
        first, second = (decode_prediction(prediction) for prediction in result.predictions)
        assert (first["offset"], first["id"], first["epoch"]) == (5, 5, START // HOUR)
        assert (second["offset"], second["loss"], second["epoch"]) == (7, None, START // HOUR + 1)
        assert first["model"] == second["model"] == "0123456789abcdef"
        assert (result.learned, result.unlabelled) == (1, 1)

    def test_an_epoch_ends_before_its_successor_s_first_record_is_scored(self) -> None:
        """The growth comes from the records before the boundary alone, and empty epochs end nothing."""
        model = new_model()
        (result,) = process_in_batches(model, [good(0), good(1), good(2, hours=5), good(3, hours=5.5)])
        assert [(end.epoch, end.offset) for end in result.ends] == [(START // HOUR, 2)]
        untouched = new_model()
        process_in_batches(untouched, [good(0), good(1)])
        untouched.learner.end_epoch()
        scored_after = decode_prediction(result.predictions[2])["prediction"]
        assert scored_after == as_apple(untouched.learner).predict(DECODER.decode([good(2).payload]).batch)[0]

    @pytest.mark.parametrize(
        ("time_ms", "reason", "found"),
        [
            (-1, Reason.BAD_TIMESTAMP, "found none"),
            (0, Reason.BAD_TIMESTAMP, "found 0"),
            (START + 24 * HOUR + 2, Reason.FAR_FUTURE, f"after {time_text(START + 1)}, "),
        ],
    )
    def test_a_timestamp_that_cannot_be_used_is_rejected_with_the_facts(
        self, time_ms: int, reason: Reason, found: str
    ) -> None:
        """The message has what was expected and found; the record is neither scored nor learned."""
        records = [good(0), good(1)._replace(time_ms=START + 1), good(2)._replace(time_ms=time_ms), good(3)]
        (result,) = process_in_batches(new_model(), records)
        assert [(reject.record, reject.reason) for reject in result.rejects] == [(records[2], reason)]
        assert found in result.rejects[0].message
        assert list(result.examples) == [records[0], records[1], records[3]]

    def test_a_replay_takes_one_digest_of_a_batch(self) -> None:
        """Live, every end has one; replayed, or for those who only look on, the last of a batch, and it is the same."""
        records = [good(at, hours=at / 2) for at in range(20)]
        live, replaying = new_model(), new_model()
        onlooker = PartitionModel(live.topic, 0, live.lineage, SETTINGS._replace(each_digest=False), DECODER)
        replaying.publish_from = 13
        told = [end.digest for end in live.process(records).ends]
        assert len(set(told)) == 9
        assert [end.digest for end in onlooker.process(records).ends] == ["" for _ in told[:-1]] + told[-1:]
        parts = [replaying.process(records[:7]), replaying.process(records[7:])]
        ends = [(end.offset, end.digest) for part in parts for end in part.ends]
        assert ends == [
            (offset, digest if offset == 6 or offset >= 13 else "")
            for offset, digest in zip(range(2, 20, 2), told, strict=True)
        ]
        assert live.ended == onlooker.ended == replaying.ended

    def test_every_epoch_that_had_records_ends(self) -> None:
        """Also when one follows the other without a gap; the growth of each is told once."""
        records = [good(at, hours=hours) for at, hours in enumerate([0, 0.5, 1, 2, 2.1, 3, 7, 7.5, 8])]
        (result,) = process_in_batches(new_model(), records)
        first = START // HOUR
        ends = [(end.epoch - first, end.offset) for end in result.ends]
        assert ends == [(0, 2), (1, 3), (2, 5), (3, 6), (7, 8)]

    def test_a_record_that_comes_twice_stops_everything(self) -> None:
        """An offset below the expected one, or out of order, is never learned."""
        model = new_model()
        process_in_batches(model, [good(0), good(1)])
        with pytest.raises(AssertionError, match=r"from offset 2 on, found \[1\]"):
            model.process([good(1)])
        with pytest.raises(AssertionError, match="in order"):
            model.process([good(3), good(3)])

    def test_a_model_that_is_no_longer_finite_names_the_place(self) -> None:
        """ModelError says in which topic and partition, and at which offset."""
        model = new_model()

        def explode(*_: object) -> None:
            raise ModelError("score is nan", 1)

        model.learner.learn = explode  # type: ignore[assignment]
        with pytest.raises(ModelError, match="examples-0@6: score is nan"):
            model.process([good(4), good(6)])

    @settings(max_examples=20)
    @given(st.lists(st.integers(0, 60), max_size=6))
    def test_too_many_rejects_stop_at_the_same_record_however_the_batches_are_cut(self, cuts: list[int]) -> None:
        """The 21st bad record in a row stops, and is named with the reason."""
        model = new_model(settings=SETTINGS._replace(reject_limits=RejectLimits(20, 1.0)))
        records = [good(i) for i in range(10)] + [good(i)._replace(payload=b"") for i in range(10, 60)]
        with pytest.raises(
            TooManyRejectsError,
            match=r"examples-0@30: .*in a row .limits.max_consecutive_rejects., found 21.*malformed",
        ):
            process_in_batches(model, records, cuts)

    def test_rejects_that_were_published_before_are_not_judged_again(self) -> None:
        """A replay passes over what stopped nothing when it was live."""
        model = new_model(settings=SETTINGS._replace(reject_limits=RejectLimits(2, 1.0)))
        model.publish_from = 20
        process_in_batches(model, [good(i)._replace(payload=b"") for i in range(10)] + [good(20)])
        assert model.next_offset == 21

    def test_what_the_learner_cannot_take_is_refused_and_changes_nothing(self) -> None:
        """A value too large to be squared is a dead letter; the learner is that of a stream without the record."""
        poison = [3.4e38, -1e30, 2.0**60, float(np.finfo(np.float32).max)]
        clean, poisoned = [], []
        for at in range(200):
            payload = encode_example(Example(1.0, 1.0, None, {"a": 1.0, "b": poison[at % len(poison)]}))
            clean.append(good(2 * at, label=float(at % 3), hours=at / 20))
            poisoned += [clean[-1], clean[-1]._replace(at=2 * at + 1, payload=payload)]
        model, expected = new_model(), new_model()
        (result,) = process_in_batches(model, poisoned)
        process_in_batches(expected, clean)
        assert {reject.reason for reject in result.rejects} == {Reason.OVERFLOW}
        assert [reject.record for reject in result.rejects] == poisoned[1::2]
        assert "expected a value below 2^60" in result.rejects[0].message
        assert model.learner.digest() == expected.learner.digest()
        assert len(result.predictions) == len(clean)

    def test_an_empty_batch_changes_nothing(self) -> None:
        """No records, no result, no movement."""
        model = new_model(start=3)
        assert model.process([])._replace(seconds={}) == BatchResult([], [], [], [], [], 0, 0, 0, 3, {})
        assert (model.next_offset, model.clock.epoch) == (3, -1)

    def test_scores_are_finite(self) -> None:
        """The sample really trains a model: losses fall from the first hundred labelled records to the last."""
        (result,) = process_in_batches(new_model(), RECORDS)
        losses = [
            float(str(message["loss"]))
            for message in map(decode_prediction, result.predictions)
            if message["loss"] is not None
        ]
        assert np.isfinite(losses).all()
        assert np.mean(losses[-100:]) < np.mean(losses[:100])
