"""What stands about merging beside an offset, and whose it must be."""

import json

import pytest

from stream_apple.config import load
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.positions.lineage import (
    MAX_GAPS,
    MAX_SKIPS,
    Gap,
    OffsetMetadata,
    Provenance,
    SnapshotPointer,
    Topics,
)
from stream_apple.stream.positions.merge_note import (
    BoundaryNote,
    BoundaryState,
    MergedPointer,
    MergeNote,
    MergeSettings,
)

TOPICS = Topics("examples", "predictions", "dead-letters", "models", "merges")
PROVENANCE = Provenance("group", TOPICS, {"bits": 1}, MergeSettings(2, "votes", 10.0, 60.0))
WHOLE = MergeNote((2, "votes"), BoundaryNote(7, 1234, BoundaryState.ADOPTED), MergedPointer(7, 10, 12))
MOST = 2**63 - 1
"""The largest offset."""


class TestText:
    """The note in the metadata of an offset."""

    @pytest.mark.parametrize(
        "note",
        [
            MergeNote((2, "votes")),
            WHOLE,
            WHOLE._replace(merged=None),
            WHOLE._replace(boundary=None),
            WHOLE._replace(boundary=BoundaryNote(0, 0, BoundaryState.CONTRIBUTED)),
            WHOLE._replace(boundary=BoundaryNote(0, 0, BoundaryState.SKIPPED)),
        ],
    )
    def test_comes_back_whole(self, note: MergeNote) -> None:
        """Whatever is in it."""
        metadata = OffsetMetadata(PROVENANCE.lineage(0, 3), None, note)
        assert PROVENANCE.read_metadata(0, Committed(9, metadata.to_text())) == metadata

    def test_is_absent_where_nothing_is_merged(self) -> None:
        """The text is that of a worker that knows of no merging."""
        lineage = PROVENANCE.lineage(0, 3)
        text = OffsetMetadata(lineage, None).to_text()
        assert json.loads(text) == {"v": 1, "start": 3, "model": lineage.model}
        assert PROVENANCE._replace(merging=None).read_metadata(0, Committed(9, text)).merge is None

    def test_merging_is_no_part_of_the_fingerprint(self) -> None:
        """Models that are not merged keep theirs."""
        assert PROVENANCE.lineage(0, 3) == PROVENANCE._replace(merging=None).lineage(0, 3)

    def test_there_is_room_for_it(self) -> None:
        """Beside as many gaps and skips as there may be, with the largest offsets, in what a broker accepts."""
        lineage = PROVENANCE.lineage(0, 10**15, [Gap(10**15, 10**15)] * MAX_GAPS, [10**15] * MAX_SKIPS)
        note = MergeNote(
            (10**6, "votes"), BoundaryNote(MOST, MOST, BoundaryState.CONTRIBUTED), MergedPointer(*[MOST] * 3)
        )
        metadata = OffsetMetadata(lineage, SnapshotPointer(MOST, MOST, MOST, "f" * 32), note)
        assert len(metadata.to_text().encode()) <= 4096

    @pytest.mark.parametrize(
        "merge",
        [
            1,
            {},
            {"settings": [2]},
            {"settings": ["votes", 2]},
            {"settings": [2, "votes"], "boundary": [1, 2]},
            {"settings": [2, "votes"], "boundary": [1, 2, "lost"]},
            {"settings": [2, "votes"], "merged": [1]},
        ],
    )
    def test_something_else_is_refused(self, merge: object) -> None:
        """As any note that nobody of ours has written."""
        content = {"v": 1, "start": 3, "model": PROVENANCE.lineage(0, 3).model, "merge": merge}
        with pytest.raises(ConfigurationError, match="something else commits in this group"):
            PROVENANCE.read_metadata(0, Committed(9, json.dumps(content)))


class TestConfigured:
    """From the configuration to what a worker goes by."""

    def test_off(self) -> None:
        """It is the default, and there is no topic of merges."""
        provenance = Provenance.of(load(None, {}))
        assert provenance.merging is None
        assert provenance.topics == Topics("examples", "predictions", "dead-letters", "models")

    def test_average(self) -> None:
        """Seconds out of durations."""
        given = {"MODE": "average", "EVERY": "3", "PARENTS": "union", "PATIENCE": "1s500ms", "MAX_HOLD": "2m"}
        provenance = Provenance.of(load(None, {f"STREAM_APPLE_MERGE__{name}": value for name, value in given.items()}))
        assert provenance.merging == MergeSettings(3, "union", 1.5, 120.0)
        assert provenance.topics.merges == "merges"

    def test_forever(self) -> None:
        """Then nobody goes on alone, however long it takes."""
        given = {"STREAM_APPLE_MERGE__MODE": "average", "STREAM_APPLE_MERGE__PATIENCE": "forever"}
        provenance = Provenance.of(load(None, given))
        assert provenance.merging == MergeSettings(1, "votes", float("inf"), float("inf"))

    def test_models_do_not_depend_on_it(self) -> None:
        """Its section is not among those that fingerprints are made of."""
        config = load(None, {"STREAM_APPLE_MERGE__MODE": "average"})
        assert config.model_settings() == load(None, {"STREAM_APPLE_LEARNER__MERGEABLE": "true"}).model_settings()

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            (
                {"MERGE__PATIENCE": "2m"},
                "merge: expected a patience of at most max_hold, or 'forever', found patience 2m",
            ),
            ({"MERGE__PATIENCE": "10"}, r"expected a duration such as '10s', from 100ms, or 'forever', found '10'"),
            ({"MERGE__PATIENCE": "10ms"}, r"expected a duration such as '10s', from 100ms, or 'forever'"),
            ({"MERGE__MODE": "average", "TOPICS__MERGES": "models"}, "expected five different topics"),
            (
                {"MERGE__MODE": "average", "LEARNER__DRIFT": "restart"},
                r"learner.drift: expected ignore with mergeable = true, found .restart.",
            ),
            ({"MERGE__EVERY": "0"}, "merge.every"),
        ],
    )
    def test_what_can_not_be(self, given: dict[str, str], fault: str) -> None:
        """Is refused with what was expected."""
        with pytest.raises(ConfigurationError, match=fault):
            load(None, {f"STREAM_APPLE_{name}": value for name, value in given.items()})

    def test_a_name_in_use_does_not_matter_where_nothing_is_merged(self) -> None:
        """The topic of merges is not looked at."""
        assert load(None, {"STREAM_APPLE_TOPICS__PREDICTIONS": "merges"}).topics.predictions == "merges"
