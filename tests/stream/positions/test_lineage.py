"""Whose model it is, and what the committed offset says of it."""

import json

import pytest

from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.positions.lineage import (
    MAX_GAPS,
    MAX_SKIPS,
    Gap,
    Lineage,
    OffsetMetadata,
    Provenance,
    SnapshotPointer,
    Topics,
    fingerprint,
)

PROVENANCE = Provenance("group", Topics("examples", "predictions", "dead-letters", "models"), {"bits": 1})
SNAPSHOT = SnapshotPointer(6, 40, 42, "d" * 32)


class TestOffsetMetadata:
    """What stands beside a committed offset."""

    def test_it_comes_back(self) -> None:
        """Lineage, gaps and pointer are read as they were written."""
        lineage = PROVENANCE.lineage(0, 3, [Gap(5, 8)], [9, 11])
        metadata = OffsetMetadata(lineage, SNAPSHOT)
        assert PROVENANCE.read_metadata(0, Committed(9, metadata.to_text())) == metadata

    def test_the_longest_one_fits(self) -> None:
        """Offsets of nineteen digits, of as many gaps and skips as there may be, stay below the broker's 4096 bytes."""
        huge = (1 << 63) - 1
        gaps = tuple(Gap(huge, huge) for _ in range(MAX_GAPS))
        metadata = OffsetMetadata(
            Lineage(huge, "f" * 16, gaps, (huge,) * MAX_SKIPS), SnapshotPointer(huge, huge, huge, "f" * 32)
        )
        assert len(metadata.to_text().encode()) < 4096

    def test_metadata_without_a_snapshot_is_short(self) -> None:
        """What a new group commits before its first snapshot."""
        metadata = OffsetMetadata(PROVENANCE.lineage(0, 3), None)
        assert set(json.loads(metadata.to_text())) == {"v", "start", "model"}

    @pytest.mark.parametrize(
        "metadata",
        [
            "",
            "null",
            "[1]",
            '{"v":1}',
            '{"v":1,"start":0,"model":"x","snapshot":[1]}',
            '{"v":1,"start":0,"model":"x","skips":["a"]}',
        ],
    )
    def test_what_is_no_metadata_of_ours(self, metadata: str) -> None:
        """Somebody else's metadata is refused with its text."""
        with pytest.raises(ConfigurationError, match="something else commits in this group"):
            PROVENANCE.read_metadata(0, Committed(9, metadata))


class TestLineages:
    """What a model was before it jumped over gaps."""

    NEWEST = PROVENANCE.lineage(0, 3, [Gap(5, 8), Gap(20, 30)])

    def test_every_gap_makes_another(self) -> None:
        """From the one that knows of no gap to the newest."""
        first, second, last = PROVENANCE.lineages(0, self.NEWEST)
        assert (first.gaps, second.gaps, last) == ((), (Gap(5, 8),), self.NEWEST)
        assert len({first.model, second.model, last.model}) == 3

    @pytest.mark.parametrize(("offset", "gaps"), [(3, 0), (5, 0), (8, 1), (20, 1), (30, 2), (99, 2)])
    def test_at_an_offset(self, offset: int, gaps: int) -> None:
        """A gap counts once its last offset is behind the model."""
        assert PROVENANCE.lineage_at(0, self.NEWEST, offset) == PROVENANCE.lineages(0, self.NEWEST)[gaps]

    def test_every_skip_makes_another(self) -> None:
        """Gaps and skips in the order of their offsets; a skip counts once its record is behind the model."""
        newest = PROVENANCE.lineage(0, 3, [Gap(5, 8)], [3, 8])
        found = [(lineage.gaps, lineage.skips) for lineage in PROVENANCE.lineages(0, newest)]
        assert found == [((), ()), ((), (3,)), ((Gap(5, 8),), (3,)), ((Gap(5, 8),), (3, 8))]
        assert [PROVENANCE.lineage_at(0, newest, offset).skips for offset in (3, 4, 8, 9)] == [(), (3,), (3,), (3, 8)]
        assert newest.left_out == 9


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
            fingerprint({"a": 1, "b": 2}, "t", 0, 0, [], [1]),
        ]
        assert len({base, *others}) == 7
        assert all(len(each) == 16 and int(each, 16) >= 0 for each in others)
