"""Which model a newly assigned partition gets."""

import pytest
from support.records import DECODER, SETTINGS, good

from stream_apple.errors import ConfigurationError, GapError, SnapshotError
from stream_apple.stream.log.ports import Committed, LogRange
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions, RecoveryPlan, can_replay, check_in_log, plan_recovery
from stream_apple.stream.positions.lineage import (
    MAX_GAPS,
    MAX_SKIPS,
    Gap,
    Lineage,
    OffsetMetadata,
    Provenance,
    SnapshotPointer,
    Topics,
)

LOG = LogRange(0, 100)
PROVENANCE = Provenance("group", Topics("examples", "predictions", "dead-letters", "models"), {"bits": 1})
SNAPSHOT = SnapshotPointer(6, 40, 42, "d" * 32)


def make(partition: int, lineage: Lineage) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel("examples", partition, lineage, SETTINGS, DECODER)


def committed_at(
    offset: int,
    start: int = 0,
    snapshot: SnapshotPointer | None = None,
    gaps: tuple[Gap, ...] = (),
    skips: tuple[int, ...] = (),
) -> Committed:
    """A committed offset of our own model."""
    return Committed(offset, OffsetMetadata(PROVENANCE.lineage(0, start, gaps, skips), snapshot).to_text())


def kept_at(offset: int) -> PartitionModel:
    """Our model, having learned the records before `offset`."""
    model = make(0, PROVENANCE.lineage(0, 0))
    model.process([good(at) for at in range(offset)])
    return model


def plan(
    committed: Committed | None,
    log: LogRange = LOG,
    kept: PartitionModel | None = None,
    accepted: tuple[tuple[int, int], ...] = (),
    skip: tuple[tuple[int, int], ...] = (),
) -> RecoveryPlan:
    """The plan for partition 0."""
    return plan_recovery(PROVENANCE, Exceptions(frozenset(accepted), frozenset(skip)), 0, committed, log, kept)


class TestPlan:
    """New, kept, restored or replayed."""

    def test_nothing_committed_begins_at_the_log_s_start(self) -> None:
        """A new model, live at once, whatever was kept."""
        found = plan(None, LogRange(7, 100), kept_at(3))
        assert (found.kept, found.lineage.start, found.publish_from) == (None, 7, 7)
        assert (found.fetch_from, found.restore, found.jump) == (7, False, None)

    def test_a_kept_model_at_the_committed_offset_goes_on(self) -> None:
        """Neither replay nor restore, though there is a snapshot."""
        kept = kept_at(5)
        found = plan(committed_at(5, snapshot=SNAPSHOT._replace(at=3)), kept=kept)
        assert found.kept is kept
        assert (found.restore, found.fetch_from, found.publish_from) == (False, 5, 5)

    def test_a_kept_model_behind_the_committed_offset_catches_up_in_silence(self) -> None:
        """Another worker has published what lies between; the records are learned here too."""
        kept = kept_at(5)
        found = plan(committed_at(9), kept=kept)
        assert found.kept is kept
        assert (found.fetch_from, found.publish_from) == (5, 9)

    def test_a_kept_model_ahead_of_the_committed_offset_is_dropped(self) -> None:
        """It has learned records whose outputs nobody has seen: they will be processed again."""
        found = plan(committed_at(4, snapshot=SNAPSHOT._replace(at=2)), kept=kept_at(5))
        assert (found.kept, found.lineage.start, found.publish_from) == (None, 0, 4)
        assert (found.restore, found.fetch_from) == (True, 2)

    def test_a_kept_model_behind_the_snapshot_is_dropped(self) -> None:
        """Others have gone on meanwhile, and what it lacks may be gone from the log."""
        found = plan(committed_at(9, snapshot=SNAPSHOT), LogRange(6, 100), kept_at(5))
        assert (found.restore, found.fetch_from, found.jump) == (True, 6, None)

    def test_a_kept_model_of_another_lineage_is_dropped(self) -> None:
        """The group's offsets were begun anew elsewhere."""
        found = plan(committed_at(9, start=2), kept=kept_at(5))
        assert (found.kept, found.lineage.start, found.fetch_from) == (None, 2, 2)

    def test_a_snapshot_is_restored(self) -> None:
        """The replay begins where the snapshot was taken."""
        found = plan(committed_at(9, snapshot=SNAPSHOT))
        assert (found.snapshot, found.restore, found.fetch_from, found.publish_from) == (SNAPSHOT, True, 6, 9)

    def test_without_a_snapshot_the_whole_past_is_replayed(self) -> None:
        """From the first record that the model ever learned."""
        found = plan(committed_at(9, start=2))
        assert (found.snapshot, found.restore, found.fetch_from, found.publish_from) == (None, False, 2, 9)

    def test_a_plan_changes_nothing(self) -> None:
        """A model that is kept, and one that is not, are what they were before, whatever is planned for them."""
        for committed in (None, committed_at(4), committed_at(9), committed_at(9, snapshot=SNAPSHOT)):
            kept = kept_at(5)
            before = (kept.digest(), kept.publish_from, kept.next_offset)
            plan(committed, kept=kept)
            assert (kept.digest(), kept.publish_from, kept.next_offset) == before


class TestGaps:
    """Records that are gone before they were learned."""

    @pytest.mark.parametrize(
        ("committed", "kept", "low", "first"),
        [
            (committed_at(9), None, 1, 0),
            (committed_at(9, snapshot=SNAPSHOT), None, 7, 6),
            (committed_at(9, snapshot=SNAPSHOT), 8, 9, 8),
            (committed_at(9, snapshot=SNAPSHOT._replace(at=9)), None, 12, 9),
        ],
    )
    def test_a_gap_stops_the_worker(self, committed: Committed, kept: int | None, low: int, first: int) -> None:
        """The message names the gap, and the setting that accepts it."""
        model = None if kept is None else kept_at(kept)
        with pytest.raises(GapError, match=rf"offset {first} on.*found {low} as .*accept_gap = \[\"0@{first}\"\]"):
            plan(committed, LogRange(low, 100), model)

    @pytest.mark.parametrize(("low", "unanswered"), [(7, 0), (12, 3)])
    def test_the_message_says_what_was_never_answered(self, low: int, unanswered: int) -> None:
        """Records below the committed offset have their predictions; those above never will."""
        with pytest.raises(GapError, match=f"{unanswered} of them have no prediction"):
            plan(committed_at(9, snapshot=SNAPSHOT), LogRange(low, 100))

    def test_records_that_were_learned_may_go(self) -> None:
        """Retention up to the model's position is no gap."""
        assert plan(committed_at(9, snapshot=SNAPSHOT), LogRange(6, 100)).jump is None
        assert plan(committed_at(9), LogRange(5, 100), kept_at(5)).jump is None

    def test_an_accepted_gap_is_jumped(self) -> None:
        """The model goes on behind it under another fingerprint, which remembers the gap."""
        found = plan(committed_at(9, snapshot=SNAPSHOT), LogRange(12, 100), accepted=((0, 6),))
        assert found.jump is not None
        assert (found.jump.gap, found.fetch_from, found.restore) == (Gap(6, 12), 12, True)
        model = make(0, found.lineage)
        model.publish_from = found.publish_from
        model.jump(*found.jump)
        assert (model.next_offset, model.publish_from) == (12, 12)
        assert model.lineage == PROVENANCE.lineage(0, 0, [Gap(6, 12)])
        assert model.lineage.model != PROVENANCE.lineage(0, 0).model

    def test_a_gap_in_what_is_answered_already(self) -> None:
        """What follows the gap up to the committed offset is learned in silence."""
        found = plan(committed_at(20, snapshot=SNAPSHOT), LogRange(12, 100), accepted=((0, 6),))
        assert (found.fetch_from, found.publish_from) == (12, 20)

    @pytest.mark.parametrize("accepted", [(1, 6), (0, 5), (0, 7)])
    def test_only_the_gap_that_was_named_is_accepted(self, accepted: tuple[int, int]) -> None:
        """Another partition's, or one that begins elsewhere, is a new decision."""
        with pytest.raises(GapError):
            plan(committed_at(9, snapshot=SNAPSHOT), LogRange(12, 100), accepted=(accepted,))

    def test_gaps_add_up(self) -> None:
        """A second gap leaves the first in the lineage."""
        first = Gap(2, 3)
        found = plan(committed_at(9, snapshot=SNAPSHOT, gaps=(first,)), LogRange(12, 100), accepted=((0, 6),))
        assert found.jump is not None
        assert found.jump.lineage.gaps == (first, Gap(6, 12))

    def test_there_is_an_end_to_gaps(self) -> None:
        """What can't be noted beside the offset is refused before it is lost."""
        gaps = tuple(Gap(at, at + 1) for at in range(MAX_GAPS))
        committed = committed_at(9, snapshot=SNAPSHOT, gaps=gaps)
        with pytest.raises(ConfigurationError, match=f"at most {MAX_GAPS} gaps"):
            plan(committed, LogRange(12, 100), accepted=((0, 6),))
        last = plan(committed_at(9, snapshot=SNAPSHOT, gaps=gaps[1:]), LogRange(12, 100), accepted=((0, 6),))
        assert last.jump is not None
        assert len(last.jump.lineage.gaps) == MAX_GAPS


class TestSnapshotInLog:
    """Messages 40 to 42 of the models topic."""

    @pytest.mark.parametrize(("low", "high"), [(0, 43), (40, 43), (40, 100)])
    def test_it_may_be_all_of_it(self, low: int, high: int) -> None:
        """The log may begin with its first message, and end with its last."""
        check_in_log(PROVENANCE, 0, SNAPSHOT, LogRange(low, high))

    @pytest.mark.parametrize(("low", "high"), [(41, 43), (40, 42), (0, 0)])
    def test_what_lacks_a_message_is_refused(self, low: int, high: int) -> None:
        """With what was found."""
        with pytest.raises(SnapshotError, match=f"messages 40 to 42, found {low} to {high - 1} in the log"):
            check_in_log(PROVENANCE, 0, SNAPSHOT, LogRange(low, high))


class TestReplayInstead:
    """The models log no longer has the first message of the snapshot."""

    def test_the_log_replaces_it(self) -> None:
        """Only if it begins with the model's first record, and the models log goes on after the snapshot."""
        found = plan(committed_at(9, snapshot=SNAPSHOT), LogRange(0, 100))
        start = found.lineage.start
        assert can_replay(PROVENANCE, found, LogRange(start, 100), LogRange(43, 43))
        assert not can_replay(PROVENANCE, found, LogRange(start + 1, 100), LogRange(43, 43))
        assert not can_replay(PROVENANCE, found, LogRange(start, 100), LogRange(0, 0))
        assert not can_replay(PROVENANCE, found, LogRange(start, 100), LogRange(0, 43))


class TestSkips:
    """Records that the operator wants left out."""

    def test_each_has_the_lineage_of_all_before(self) -> None:
        """In the order of the offsets, whatever that of the names; other partitions' are not this one's."""
        found = plan(committed_at(9, snapshot=SNAPSHOT, skips=(3,)), skip=((0, 40), (0, 9), (1, 20)))
        assert [skip.offset for skip in found.skips] == [9, 40]
        assert [skip.lineage for skip in found.skips] == [
            PROVENANCE.lineage(0, 0, (), (3, 9)),
            PROVENANCE.lineage(0, 0, (), (3, 9, 40)),
        ]
        assert found.lineage == PROVENANCE.lineage(0, 0, (), (3,))

    def test_a_new_model_has_them_too(self) -> None:
        """A group that begins anew leaves out what is still named, from its first record on."""
        found = plan(None, LogRange(7, 100), skip=((0, 3), (0, 7), (0, 12)))
        assert [skip.offset for skip in found.skips] == [7, 12]

    @pytest.mark.parametrize("offset", [2, 6, 8])
    def test_one_that_was_answered_is_refused(self, offset: int) -> None:
        """The message says how far the answers go; what is named beside it does not hide it."""
        with pytest.raises(ConfigurationError, match=rf"^worker.skip: .* found 0@{offset}, .*committed up to 9"):
            plan(committed_at(9, snapshot=SNAPSHOT, start=2), skip=((0, 40), (0, offset)))

    def test_what_was_left_out_already_may_stay_named(self) -> None:
        """It was skipped, lies in a gap, or before the model's beginning."""
        committed = committed_at(9, 2, SNAPSHOT._replace(at=8), (Gap(3, 5),), (6,))
        assert plan(committed, skip=((0, 6), (0, 4), (0, 1))).skips == ()

    def test_one_in_a_gap_that_is_jumped(self) -> None:
        """It is gone with the others; those behind have the gap in their lineage."""
        found = plan(committed_at(9, snapshot=SNAPSHOT), LogRange(12, 100), None, ((0, 6),), ((0, 10), (0, 12)))
        (skip,) = found.skips
        assert skip == (12, PROVENANCE.lineage(0, 0, [Gap(6, 12)], [12]))

    def test_there_is_an_end_to_skips(self) -> None:
        """What can't be noted beside the offset is refused before it is lost."""
        committed = committed_at(100, snapshot=SNAPSHOT._replace(at=100), skips=tuple(range(MAX_SKIPS)))
        assert plan(committed, skip=((0, 5),)).skips == ()
        with pytest.raises(ConfigurationError, match=f"at most {MAX_SKIPS} skipped records .*, and 1 more"):
            plan(committed, skip=((0, 5), (0, 200)))
