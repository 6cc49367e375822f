"""Which model a newly assigned partition gets."""

import json

import pytest
from runtime.records import DECODER, SETTINGS, good

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.runtime.lineage import MAX_GAPS, Gap, Lineage, Note, Pointer, committed_note, fingerprint, lineage_of
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.recovery import Found, Origin, Recovery
from stream_apple.runtime.step import PartitionModel

LOG = LogRange(0, 100)
MODEL = {"bits": 1}
SNAPSHOT = Pointer(6, 40, 42, "d" * 32)


def make(partition: int, lineage: Lineage) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel("examples", partition, lineage, SETTINGS, DECODER)


def recovery(*accepted: tuple[int, int]) -> Recovery:
    """With these gaps accepted."""
    return Recovery(Origin("examples", "group", MODEL), make, frozenset(accepted))


def committed_at(offset: int, start: int = 0, snapshot: Pointer | None = None, gaps: tuple[Gap, ...] = ()) -> Committed:
    """A committed offset of our own model."""
    return Committed(offset, Note(lineage_of(MODEL, "examples", 0, start, gaps), snapshot).to_metadata())


def kept_at(offset: int) -> PartitionModel:
    """Our model, having learned the records before `offset`."""
    model = make(0, lineage_of(MODEL, "examples", 0, 0))
    model.process([good(at) for at in range(offset)])
    return model


def find(
    committed: Committed | None,
    log: LogRange = LOG,
    kept: PartitionModel | None = None,
    accepted: tuple[tuple[int, int], ...] = (),
) -> Found:
    """Of partition 0."""
    return recovery(*accepted).find(0, committed, log, kept)


class TestFind:
    """New, kept, restored or replayed."""

    def test_nothing_committed_begins_at_the_log_s_start(self) -> None:
        """A new model, live at once, whatever was kept."""
        found = find(None, LogRange(7, 100), kept_at(3))
        model = found.model
        assert (model.next_offset, model.publish_from, model.lineage.start, model.live) == (7, 7, 7, True)
        assert (found.start, found.restore, found.jump) == (7, False, None)

    def test_a_kept_model_at_the_committed_offset_goes_on(self) -> None:
        """Neither replay nor restore, though there is a snapshot: it is live."""
        kept = kept_at(5)
        found = find(committed_at(5, snapshot=SNAPSHOT._replace(at=3)), kept=kept)
        assert found.model is kept
        assert (found.restore, found.start, kept.live) == (False, 5, True)

    def test_a_kept_model_behind_the_committed_offset_catches_up_in_silence(self) -> None:
        """Another worker has published what lies between; the records are learned here too."""
        kept = kept_at(5)
        found = find(committed_at(9), kept=kept)
        assert found.model is kept
        assert (kept.next_offset, kept.publish_from, kept.live) == (5, 9, False)

    def test_a_kept_model_ahead_of_the_committed_offset_is_dropped(self) -> None:
        """It has learned records whose outputs nobody has seen: they will be processed again."""
        found = find(committed_at(4, snapshot=SNAPSHOT._replace(at=2)), kept=kept_at(5))
        assert (found.model.next_offset, found.model.publish_from, found.model.clock.epoch) == (0, 4, -1)
        assert (found.restore, found.start) == (True, 2)

    def test_a_kept_model_behind_the_snapshot_is_dropped(self) -> None:
        """Others have gone on meanwhile, and what it lacks may be gone from the log."""
        found = find(committed_at(9, snapshot=SNAPSHOT), LogRange(6, 100), kept_at(5))
        assert (found.restore, found.start, found.jump) == (True, 6, None)

    def test_a_kept_model_of_another_lineage_is_dropped(self) -> None:
        """The group's offsets were begun anew elsewhere."""
        model = find(committed_at(9, start=2), kept=kept_at(5)).model
        assert (model.next_offset, model.lineage.start) == (2, 2)

    def test_a_snapshot_is_restored(self) -> None:
        """The replay begins where the snapshot was taken."""
        found = find(committed_at(9, snapshot=SNAPSHOT))
        assert (found.snapshot, found.restore, found.start, found.model.publish_from) == (SNAPSHOT, True, 6, 9)

    def test_without_a_snapshot_the_whole_past_is_replayed(self) -> None:
        """From the first record that the model ever learned."""
        found = find(committed_at(9, start=2))
        assert (found.snapshot, found.restore, found.start, found.model.publish_from) == (None, False, 2, 9)


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
            find(committed, LogRange(low, 100), model)

    @pytest.mark.parametrize(("low", "unanswered"), [(7, 0), (12, 3)])
    def test_the_message_says_what_was_never_answered(self, low: int, unanswered: int) -> None:
        """Records below the committed offset have their predictions; those above never will."""
        with pytest.raises(GapError, match=f"{unanswered} of them have no prediction"):
            find(committed_at(9, snapshot=SNAPSHOT), LogRange(low, 100))

    def test_records_that_were_learned_may_go(self) -> None:
        """Retention up to the model's position is no gap."""
        assert find(committed_at(9, snapshot=SNAPSHOT), LogRange(6, 100)).jump is None
        assert find(committed_at(9), LogRange(5, 100), kept_at(5)).jump is None

    def test_an_accepted_gap_is_jumped(self) -> None:
        """The model goes on behind it under another fingerprint, which remembers the gap."""
        found = find(committed_at(9, snapshot=SNAPSHOT), LogRange(12, 100), accepted=((0, 6),))
        assert found.jump is not None
        assert (found.jump.gap, found.start, found.restore) == (Gap(6, 12), 12, True)
        model = found.model
        model.jump(*found.jump)
        assert (model.next_offset, model.publish_from, model.live) == (12, 12, True)
        assert model.lineage == lineage_of(MODEL, "examples", 0, 0, [Gap(6, 12)])
        assert model.lineage.model != lineage_of(MODEL, "examples", 0, 0).model

    def test_a_gap_in_what_is_answered_already(self) -> None:
        """What follows the gap up to the committed offset is learned in silence."""
        found = find(committed_at(20, snapshot=SNAPSHOT), LogRange(12, 100), accepted=((0, 6),))
        assert found.jump is not None
        found.model.jump(*found.jump)
        assert (found.model.next_offset, found.model.publish_from, found.model.live) == (12, 20, False)

    @pytest.mark.parametrize("accepted", [(1, 6), (0, 5), (0, 7)])
    def test_only_the_gap_that_was_named_is_accepted(self, accepted: tuple[int, int]) -> None:
        """Another partition's, or one that begins elsewhere, is a new decision."""
        with pytest.raises(GapError):
            find(committed_at(9, snapshot=SNAPSHOT), LogRange(12, 100), accepted=(accepted,))

    def test_gaps_add_up(self) -> None:
        """A second gap leaves the first in the lineage."""
        first = Gap(2, 3)
        found = find(committed_at(9, snapshot=SNAPSHOT, gaps=(first,)), LogRange(12, 100), accepted=((0, 6),))
        assert found.jump is not None
        assert found.jump.lineage.gaps == (first, Gap(6, 12))

    def test_there_is_an_end_to_gaps(self) -> None:
        """What can't be noted beside the offset is refused before it is lost."""
        gaps = tuple(Gap(at, at + 1) for at in range(MAX_GAPS))
        committed = committed_at(9, snapshot=SNAPSHOT, gaps=gaps)
        with pytest.raises(ConfigurationError, match=f"at most {MAX_GAPS} gaps"):
            find(committed, LogRange(12, 100), accepted=((0, 6),))


class TestNote:
    """What stands beside a committed offset."""

    def test_it_comes_back(self) -> None:
        """Lineage, gaps and pointer are read as they were written."""
        lineage = lineage_of(MODEL, "examples", 0, 3, [Gap(5, 8)])
        note = Note(lineage, SNAPSHOT)
        assert committed_note(Committed(9, note.to_metadata()), MODEL, "examples", 0, "group") == note

    def test_the_longest_one_fits(self) -> None:
        """Offsets of nineteen digits and as many gaps as there may be stay below the broker's 4096 bytes."""
        huge = (1 << 63) - 1
        gaps = tuple(Gap(huge, huge) for _ in range(MAX_GAPS))
        note = Note(Lineage(huge, "f" * 16, gaps), Pointer(huge, huge, huge, "f" * 32))
        assert len(note.to_metadata().encode()) < 4096

    def test_a_note_without_a_snapshot_is_of_the_same_format(self) -> None:
        """Groups that began before there were snapshots go on."""
        note = Note(lineage_of(MODEL, "examples", 0, 3), None)
        assert set(json.loads(note.to_metadata())) == {"v", "start", "model"}

    @pytest.mark.parametrize("metadata", ["", "null", "[1]", '{"v":1}', '{"v":1,"start":0,"model":"x","snapshot":[1]}'])
    def test_what_is_no_note(self, metadata: str) -> None:
        """Somebody else's metadata is refused with its text."""
        with pytest.raises(ConfigurationError, match="something else commits in this group"):
            committed_note(Committed(9, metadata), MODEL, "examples", 0, "group")


class TestFingerprint:
    """What makes two models the same function."""

    def test_it_depends_on_every_part(self) -> None:
        """Settings, topic, partition, start and gaps each change it; the order of the settings does not."""
        base = fingerprint({"a": 1, "b": 2}, "t", 0, 0)
        assert fingerprint({"b": 2, "a": 1}, "t", 0, 0) == base
        others = [
            fingerprint({"a": 1, "b": 3}, "t", 0, 0),
            fingerprint({"a": 1, "b": 2}, "u", 0, 0),
            fingerprint({"a": 1, "b": 2}, "t", 1, 0),
            fingerprint({"a": 1, "b": 2}, "t", 0, 1),
            fingerprint({"a": 1, "b": 2}, "t", 0, 0, [Gap(1, 2)]),
        ]
        assert len({base, *others}) == 6
        assert all(len(each) == 16 and int(each, 16) >= 0 for each in others)
