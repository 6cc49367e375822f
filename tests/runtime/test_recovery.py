"""Which model a newly assigned partition gets."""

import pytest
from runtime.records import DECODER, SETTINGS, good

from stream_apple.errors import GapError
from stream_apple.runtime.lineage import Lineage, fingerprint, lineage_of
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import PartitionModel

LOG = LogRange(0, 100)


def make(partition: int, lineage: Lineage) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel("examples", partition, lineage, SETTINGS, DECODER)


RECOVERY = Recovery(Origin("examples", "group", {"bits": 1}), make)


def committed_at(offset: int, start: int = 0) -> Committed:
    """A committed offset of our own model."""
    return Committed(offset, lineage_of({"bits": 1}, "examples", 0, start).to_metadata())


def kept_at(offset: int) -> PartitionModel:
    """Our model, having learned the records before `offset`."""
    model = make(0, lineage_of({"bits": 1}, "examples", 0, 0))
    model.process([good(at) for at in range(offset)])
    return model


class TestModelFor:
    """New, kept, or replayed."""

    def test_nothing_committed_begins_at_the_log_s_start(self) -> None:
        """A new model, live at once, whatever was kept."""
        model = RECOVERY.model_for(0, None, LogRange(7, 100), kept_at(3))
        assert (model.next_offset, model.publish_from, model.lineage.start, model.live) == (7, 7, 7, True)

    def test_a_kept_model_at_the_committed_offset_goes_on(self) -> None:
        """No replay: it is live."""
        kept = kept_at(5)
        assert RECOVERY.model_for(0, committed_at(5), LOG, kept) is kept
        assert kept.live

    def test_a_kept_model_behind_the_committed_offset_catches_up_in_silence(self) -> None:
        """Another worker has published what lies between; the records are learned here too."""
        kept = kept_at(5)
        assert RECOVERY.model_for(0, committed_at(9), LOG, kept) is kept
        assert (kept.next_offset, kept.publish_from, kept.live) == (5, 9, False)

    def test_a_kept_model_ahead_of_the_committed_offset_is_dropped(self) -> None:
        """It has learned records whose outputs nobody has seen: they will be processed again."""
        model = RECOVERY.model_for(0, committed_at(4), LOG, kept_at(5))
        assert (model.next_offset, model.publish_from, model.clock.epoch) == (0, 4, -1)

    def test_a_kept_model_of_another_lineage_is_dropped(self) -> None:
        """The group's offsets were begun anew elsewhere."""
        model = RECOVERY.model_for(0, committed_at(9, start=2), LOG, kept_at(5))
        assert (model.next_offset, model.lineage.start) == (2, 2)

    def test_a_kept_model_does_not_need_the_records_it_has_learned(self) -> None:
        """Retention may have taken them; a model that lost more than that is a gap."""
        kept = kept_at(5)
        assert RECOVERY.model_for(0, committed_at(9), LogRange(5, 100), kept) is kept
        with pytest.raises(GapError, match="from offset 5 on"):
            RECOVERY.model_for(0, committed_at(9), LogRange(6, 100), kept)


class TestFingerprint:
    """What makes two models the same function."""

    def test_it_depends_on_every_part(self) -> None:
        """Settings, topic, partition and start each change it; the order of the settings does not."""
        base = fingerprint({"a": 1, "b": 2}, "t", 0, 0)
        assert fingerprint({"b": 2, "a": 1}, "t", 0, 0) == base
        others = [
            fingerprint({"a": 1, "b": 3}, "t", 0, 0),
            fingerprint({"a": 1, "b": 2}, "u", 0, 0),
            fingerprint({"a": 1, "b": 2}, "t", 1, 0),
            fingerprint({"a": 1, "b": 2}, "t", 0, 1),
        ]
        assert len({base, *others}) == 5
        assert all(len(each) == 16 and int(each, 16) >= 0 for each in others)
