"""Each way in which merges can be wrong is seen, by its own name; what can't be learned again is told, and no more."""

import pytest
from simulation.process import GROUP
from simulation.small import small
from stream.merging.lockstep import hourly
from stream.verification.merged_logs import PLACE, MergedLogs, left_by, strict
from stream.verification.test_verifying_merges import kinds
from support.records import HOUR, START

from stream_apple.stream.merging.adoptions import adoption_key, encode_adoption
from stream_apple.stream.positions.merge_note import BoundaryState
from stream_apple.stream.snapshots.merge_messages import encode_merge
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.walk.faults import Kind
from stream_apple.stream.walk.recorded_merges import RecordedMerges

EPOCH = START // HOUR


def of_partition(logs: MergedLogs, partition: int) -> list[int]:
    """Numbers in the log of its adoption records."""
    return [number for number, record in logs.adoptions() if record.partition == partition]


def first_fault(report: Report, kind: Kind) -> tuple[str, int, int | None]:
    """Topic, partition and example of the first of a kind."""
    fault = next(fault for fault in report.faults if fault.kind is kind)
    return fault.topic, fault.partition, fault.example


class TestAdoptions:
    """Records of what partitions did."""

    def test_one_is_missing(self) -> None:
        """Behind its boundary nobody knows the model: the snapshot is believed, and all before is proved."""
        logs = strict()
        place = of_partition(logs, 1)[1]
        at = logs.adoptions()[[number for number, _ in logs.adoptions()].index(place)][1].at
        del logs.logs[PLACE][place]
        report = logs.verify(1)
        assert kinds(report) == {Kind.ADOPTION_MISSING}
        assert first_fault(report, Kind.ADOPTION_MISSING) == (*PLACE, at)
        assert report.fault_count == 1
        assert report.snapshot is not None
        assert report.covered.unproved is not None
        assert report.covered.unproved[:2] == (at, report.snapshot.at)
        assert report.relearned is None
        assert report.predictions.matched == report.predictions.expected == at
        assert kinds(logs.verify(0), logs.verify(2)) == set()

    def test_one_is_there_twice(self) -> None:
        """Whatever the second says."""
        logs = strict()
        place = of_partition(logs, 2)[0]
        logs.add(logs.logs[PLACE][place].payload, logs.logs[PLACE][place].named)
        report = logs.verify(2)
        assert kinds(report) == {Kind.ADOPTED_TWICE}
        assert report.relearned == (report.snapshot.digest if report.snapshot else None)

    def test_one_belongs_to_no_boundary(self) -> None:
        """An example in the middle of a round, which somebody says to have been the end of one."""
        logs = strict()
        _, record = logs.adoptions()[0]
        stray = record._replace(at=record.at + 2)
        logs.add(encode_adoption(GROUP, stray), adoption_key(GROUP, record.partition))
        report = logs.verify(record.partition)
        assert kinds(report) == {Kind.ADOPTION_STRAY}
        assert first_fault(report, Kind.ADOPTION_STRAY) == (*PLACE, stray.at)

    @pytest.mark.parametrize(
        "changes", [{"model": "0" * 32}, {"digest": "0" * 32}, {"included": False}, {"round": EPOCH + 77}], ids=str
    )
    def test_one_says_something_else(self, changes: dict[str, object]) -> None:
        """Of the model that went on, of the merged model, of its being in it, of the round."""
        logs = strict()
        logs.change_adoption(of_partition(logs, 0)[0], **changes)
        assert Kind.ADOPTED_OTHERWISE in kinds(logs.verify(0))

    def test_a_partition_says_to_have_gone_on_alone(self) -> None:
        """Its answers are those of a model that did not."""
        logs = strict()
        fields = {"state": BoundaryState.SKIPPED, "included": False, "merged": None, "digest": None}
        logs.change_adoption(of_partition(logs, 0)[1], **fields)  # before, all models predict the mean
        assert {Kind.ADOPTED_OTHERWISE, Kind.DIFFERENT} <= kinds(logs.verify(0))

    def test_one_is_not_readable(self) -> None:
        """Then it is missing as well."""
        logs = strict()
        place = of_partition(logs, 1)[2]
        logs.logs[PLACE][place] = logs.logs[PLACE][place]._replace(payload=b"\x93")
        assert kinds(logs.verify(1)) == {Kind.UNREADABLE, Kind.ADOPTION_MISSING}

    def test_the_last_one_without_a_snapshot_behind(self) -> None:
        """What can't be learned is told, and is no fault of the answers."""
        logs = left_by({0: hourly(0, [5, 5]), 1: hourly(1, [300, 5])})
        (place,) = of_partition(logs, 0)
        committed = logs.offsets[0]
        assert committed is not None
        metadata = logs.setup.provenance.read_metadata(0, committed)
        logs.offsets[0] = committed._replace(metadata=metadata._replace(snapshot=None).to_text())
        at = dict(logs.adoptions())[place].at
        del logs.logs[PLACE][place]
        report = logs.verify(0)
        assert kinds(report) == {Kind.ADOPTION_MISSING}
        assert report.covered.unproved is not None
        assert report.covered.unproved[:2] == (at, committed.offset)


class TestMergedModels:
    """Merged models, and who is said to be in them."""

    def test_a_round_is_there_twice(self) -> None:
        """Even if both are the same."""
        logs = strict()
        for number in logs.parts(logs.rounds()[0]):
            logs.add(logs.logs[PLACE][number].payload, logs.logs[PLACE][number].named)
        first, *others = logs.verify_all()
        assert kinds(first) == {Kind.MERGED_TWICE}
        assert kinds(*others) == set()
        assert kinds(logs.verify(2)) == {Kind.MERGED_TWICE}  # whoever looks first

    def test_one_is_damaged(self) -> None:
        """It can't be adopted again; what follows the newest snapshot can be learned."""
        logs = strict()
        number = logs.parts(logs.rounds()[1])[1]
        value = bytearray(logs.logs[PLACE][number].payload or b"")
        value[-3] ^= 1
        logs.logs[PLACE][number] = logs.logs[PLACE][number]._replace(payload=bytes(value))
        report = logs.verify(1)
        assert kinds(report) == {Kind.MERGED}
        assert report.covered.unproved is not None

    def test_a_part_is_missing(self) -> None:
        """As when it is damaged."""
        logs = strict()
        del logs.logs[PLACE][logs.parts(logs.rounds()[1])[1]]
        assert kinds(logs.verify(1)) == {Kind.UNREADABLE, Kind.MERGED}

    def test_the_noted_one_is_missing(self) -> None:
        """Beside partition 0 stands where the newest is."""
        logs = strict()
        for number in reversed(logs.parts(logs.rounds()[-1])):
            del logs.logs[PLACE][number]
        assert Kind.MERGED in kinds(logs.verify(0))

    @pytest.mark.parametrize("what", ["no boundary", "another digest"])
    def test_the_roster_is_wrong(self, what: str) -> None:
        """It names a contribution where no round has ended, or one that is not what the partition was there."""
        logs = strict()
        self._forge(logs, logs.rounds()[1], what)
        report = logs.verify(2)
        assert Kind.ROSTER in kinds(report)
        assert first_fault(report, Kind.ROSTER)[:2] == PLACE
        assert Kind.ROSTER not in kinds(logs.verify(0))

    def test_one_is_not_what_its_roster_makes(self) -> None:
        """The model of another round, in its place, with a digest of its own: making it again tells."""
        logs = strict()
        self._forge(logs, logs.rounds()[-1], "another model")
        assert Kind.MERGED not in kinds(logs.verify(0))
        reports = logs.verify_all()
        assert Kind.MERGED in kinds(reports[0])
        made = reports[0].made_again
        assert made is not None
        assert made == (3, 2, 0)

    @staticmethod
    def _forge(logs: MergedLogs, number: int, what: str) -> None:
        """Put another merged model in the place of a round's, message for message."""
        log, like = RecordedMerges(logs, logs.setup.provenance), logs.new_model(0, logs.setup.provenance.lineage(0, 0))
        log.read_on()
        (merge,) = log.find(number)
        with small():
            model = log.model(merge.pointer, like).model
            other = log.model(log.merges[0].pointer, like).model
        manifest = merge.manifest
        entry = manifest.roster[2]
        if what == "another model":
            model = other
            manifest = manifest._replace(digest=model.digest())
        elif what == "no boundary":
            manifest = manifest._replace(roster=(*manifest.roster[:2], entry._replace(at=entry.at - 2)))
        else:
            manifest = manifest._replace(roster=(*manifest.roster[:2], entry._replace(digest="0" * 32)))
        places = logs.parts(number)
        with small():
            values = encode_merge(GROUP, manifest, model)
        for place, value in zip(places, values, strict=True):
            logs.logs[PLACE][place] = logs.logs[PLACE][place]._replace(payload=value)


class TestGone:
    """Retention has taken what would be needed."""

    def test_early_records(self) -> None:
        """As a gap: it is named, and what came after the newest snapshot is proved."""
        logs = strict()
        logs.remove_before(PLACE, logs.logs[PLACE][-1].at)
        report = logs.verify(0)
        assert report.faults == []
        assert report.snapshot is not None
        assert report.covered.unproved is not None
        assert report.covered.unproved.stop == report.snapshot.at
        assert "it is gone" in report.covered.unproved.why
        assert report.unproved == [report.covered.unproved]
        assert report.covered.records + report.unproved_count == report.covered.stop
        assert report.predictions.matched == report.predictions.expected > 0

    def test_a_merged_model_whose_record_is_there(self) -> None:
        """Its first message is gone, its adoption is not."""
        logs = strict()
        gone = logs.rounds()[0]
        logs.remove_before(PLACE, logs.logs[PLACE][logs.parts(gone)[1]].at)
        report = logs.verify(2)
        assert report.faults == []
        assert report.covered.unproved is not None
        assert f"the merged model of round {gone} " in report.covered.unproved.why

    def test_without_a_snapshot(self) -> None:
        """Up to the first boundary all is proved, and nothing behind it."""
        logs = strict()
        logs.remove_before(PLACE, logs.logs[PLACE][-1].at)
        committed = logs.offsets[1]
        assert committed is not None
        metadata = logs.setup.provenance.read_metadata(1, committed)
        logs.offsets[1] = committed._replace(metadata=metadata._replace(snapshot=None).to_text())
        report = logs.verify(1)
        assert report.faults == []
        at = next(record.at for _, record in strict().adoptions() if record.partition == 1)
        (unproved,) = report.unproved
        assert (unproved.start, unproved.stop) == (at, committed.offset)
        assert report.predictions.matched == report.predictions.expected == at > 0
