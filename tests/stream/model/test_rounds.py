"""Where a model stops for others, and that nothing behind that place is seen by it, however its records are cut."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.records import DECODER, HOUR, PLAIN_OPTIONS, SETTINGS, START, TOPIC, good, stream

from stream_apple.errors import TooManyRejectsError
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.positions.lineage import Lineage, Skip
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState

HOURLY = SETTINGS._replace(merge_every=1)
EPOCH = START // HOUR


def new_model(settings: ModelSettings = HOURLY) -> PartitionModel:
    """A model that stops at the end of its rounds."""
    return PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), settings, DECODER)


def go_on(model: PartitionModel) -> None:
    """Nobody had anything to say."""
    assert model.rounds is not None
    model.rounds.go_on()


def run(model: PartitionModel, records: Sequence[Record], size: int) -> tuple[list[Boundary], list[bytes]]:
    """All boundaries and answers, with so many records at once; the model goes on at once, and gets the rest again."""
    boundaries, answers, at = [], [], 0
    while at < len(records):
        batch = list(records[at : at + size])
        for part, result in model.process_in_turn(batch):
            at += len(part)
            answers += result.predictions
            if result.boundary is not None:
                assert model.held == result.boundary
                assert list(model.process_in_turn(batch)) == []
                boundaries.append(result.boundary)
                go_on(model)
    return boundaries, answers


class TestRounds:
    """The arithmetic."""

    @pytest.mark.parametrize(
        ("every", "epoch", "epochs", "expected"),
        [
            (1, -1, [5, 5, 6], 2),
            (1, 5, [5, 5], 2),
            (1, 5, [6], 0),
            (1, 5, [9, 10], 0),
            (3, 5, [5, 6, 7, 8, 9], 1),
            (3, 6, [7, 8, 8, 9], 3),
            (1, 6, [4, 4, 5], 2),
            (1, 7, [], 0),
            (1, -1, [], 0),
        ],
    )
    def test_first_behind(self, every: int, epoch: int, epochs: list[int], expected: int) -> None:
        """Where the round rises; never before the first example of all, nor where the clock is put back."""
        assert Rounds(every).first_behind(epoch, np.array(epochs, np.int64)) == expected

    def test_behind_a_boundary_that_has_been_passed(self) -> None:
        """Its first example is not held again; one of a later round still is."""
        rounds = Rounds(1)
        rounds.stop(5, 10)
        rounds.go_on()
        assert rounds.first_behind(5, np.array([7, 7], np.int64)) == 2
        assert rounds.first_behind(5, np.array([7, 8], np.int64)) == 1

    def test_what_is_noted_says_where_a_restored_model_stands(self) -> None:
        """Only where its snapshot is that of the boundary."""
        for state, held, passed in (
            (BoundaryState.CONTRIBUTED, Boundary(3, 10), False),
            (BoundaryState.ADOPTED, None, True),
            (BoundaryState.SKIPPED, None, True),
        ):
            rounds = Rounds(1)
            rounds.restore(BoundaryNote(3, 10, state), 10)
            assert (rounds.held, rounds.passed) == (held, passed)
            rounds = Rounds(1)
            rounds.restore(BoundaryNote(3, 10, state), 11)
            assert (rounds.held, rounds.passed) == (None, False)

    def test_a_model_that_was_kept(self) -> None:
        """It can be gone on with, unless it has gone on with something that was never committed."""
        waits, went = BoundaryNote(3, 10, BoundaryState.CONTRIBUTED), BoundaryNote(2, 4, BoundaryState.ADOPTED)
        rounds = Rounds(1)
        assert rounds.agrees_with(None)
        assert rounds.agrees_with(went)
        assert not rounds.agrees_with(waits)
        rounds.stop(3, 10)
        assert rounds.agrees_with(went)
        assert rounds.agrees_with(waits)
        assert not rounds.agrees_with(waits._replace(round=4))
        rounds.go_on()
        assert not rounds.agrees_with(waits)
        assert not rounds.agrees_with(went)


class TestModel:
    """A partition's model at its boundaries."""

    def test_it_stops_before_the_first_record_behind(self) -> None:
        """It has ended its epoch, and its state is what it would be if nothing more had come."""
        records = [good(0), good(1), good(2, hours=1.5), good(3, hours=1.6), good(4, hours=3)]
        model, alone = new_model(), new_model()
        ((part, result),) = model.process_in_turn(list(records))
        assert [record.offset() for record in part] == [0, 1]
        assert result.boundary == Boundary(EPOCH, 2)
        assert [(end.epoch, end.offset) for end in result.ends] == [(EPOCH, 2)]
        assert (model.next_offset, model.clock.epoch) == (2, EPOCH)
        alone.process(records[:2])
        alone.learner.end_epoch(nominate=True)
        assert model.digest() == alone.digest()
        go_on(model)
        ((_, result),) = model.process_in_turn(list(records[2:]))
        assert result.ends[0].offset == 4
        assert result.boundary == Boundary(EPOCH + 1, 4)

    def test_nothing_depends_on_how_records_are_cut(self) -> None:
        """Boundaries, answers and state are the same, with bad records, and times out of order, all around them."""
        records = stream(150, seed=3, bad_share=0.3)
        model = new_model()
        expected = run(model, records, len(records))
        assert len(expected[0]) >= 5
        for size in (1, 2, 3, 7, 40):
            other = new_model()
            assert run(other, records, size) == expected
            assert other.digest() == model.digest()

    def test_alone_it_is_what_it_would_be_without_merging(self) -> None:
        """A linear model has no nominees, so that stopping changes nothing at all."""
        linear = SETTINGS._replace(options=replace(SETTINGS.options, method="linear", **PLAIN_OPTIONS))
        records = stream(120, seed=4, bad_share=0.2)
        never, now_and_then = new_model(linear), new_model(linear._replace(merge_every=1))
        answers = never.process(records).predictions
        assert run(now_and_then, records, 11)[1] == answers
        assert now_and_then.digest() == never.digest()

    def test_rejects_behind_a_boundary_are_not_counted_before_it(self) -> None:
        """So many that they end a worker do so when their turn comes, not when they are fetched."""
        settings = HOURLY._replace(reject_limits=RejectLimits(3, 1.0))
        bad = [good(at, hours=2)._replace(payload=b"\xc1") for at in range(3, 9)]
        records = [good(0), good(1), good(2, hours=2), *bad]
        model = new_model(settings)
        ((_, result),) = model.process_in_turn(list(records))
        assert result.boundary == Boundary(EPOCH, 2)
        assert model.rejects.run == 0
        go_on(model)
        with pytest.raises(TooManyRejectsError, match="examples-0@6"):
            list(model.process_in_turn(list(records[2:])))

    def test_a_skipped_record_behind_a_boundary(self) -> None:
        """It stays to be skipped until the model goes on."""
        records = [good(0), good(1, hours=1.5), good(2, hours=1.5), good(3, hours=1.5)]
        model = new_model()
        model.skips.append(Skip(2, Lineage(0, "f" * 16, (), (2,))))
        ((_, result),) = model.process_in_turn(list(records))
        assert result.boundary == Boundary(EPOCH, 1)
        assert len(model.skips) == 1
        go_on(model)
        parts = [[record.offset() for record in part] for part, _ in model.process_in_turn(list(records[1:]))]
        assert parts == [[1], [2], [3]]

    def test_several_epochs_of_a_round(self) -> None:
        """Epochs end where they did; the model stops at the last of each round."""
        model = new_model(SETTINGS._replace(merge_every=3))
        first = 3 - EPOCH % 3
        records = [good(hour, hours=hour + 0.5) for hour in range(8)]
        boundaries, _ = run(model, records, 8)
        assert [boundary.at for boundary in boundaries] == list(range(first, 8, 3))
        assert boundaries[0].round == (EPOCH + first - 1) // 3
