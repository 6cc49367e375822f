"""Verifies the promises from outside: learns a partition again, and compares all that was published with the result.

The committed metadata names the model. It is learned again from its first record, if the log still has that, else from
its newest snapshot, so that only later answers are proved. It must lead to the same predictions, the same dead letters
and, where the newest snapshot was taken, to the same state. The workers need not do anything, and may go on. Answers
that can't be proved, because needed records are gone, are no faults, and are reported besides.
"""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from typing import Literal

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.log.log_scan import LogScan, first_record
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, OffsetMetadata, SnapshotPointer, behind_gap
from stream_apple.stream.verification.answer_log import Subject
from stream_apple.stream.verification.output_check import OutputCheck
from stream_apple.stream.verification.output_logs import OutputLogs
from stream_apple.stream.verification.partition_report import Covered, Published, Report, ReportProgress
from stream_apple.stream.verification.remerging import Lane, Relearning, make_again
from stream_apple.stream.walk.answers import Outputs, Unproved
from stream_apple.stream.walk.faults import Fault, Faults, Kind
from stream_apple.stream.walk.replay import Replay, StandStill
from stream_apple.stream.walk.sources import Sources


class Verifier:
    """Verifies the partitions of one group, one at a time."""

    def __init__(self, sources: Sources, progress: ReportProgress) -> None:
        self._sources = sources
        self._logs = sources.logs
        self._provenance = sources.provenance
        self._merges = sources.merges
        self._fetch_records = sources.fetch_records
        self._progress = progress
        self._reached: dict[int, tuple[int, int]] = {}  # partition -> offsets done, and offsets in all
        self._outputs = OutputLogs(self._logs, self._provenance.topics, self._fetch_records)

    def verify_each(self, numbers: Sequence[int], to: int | None = None) -> list[Report]:
        """Verify the answers to the examples of partitions before offset `to`, or else their committed offsets.

        ConfigurationError if `to` is out of range, or a committed offset is of a model of other settings; GapError if
        the log of the examples ends before it.
        """
        self._look_ahead(numbers, to)
        lanes = [Lane(self._relearn(number, to)) for number in numbers]
        for lane in lanes:
            lane.finish()
        return [lane.report for lane in lanes]

    def verify_all(self) -> list[Report]:
        """Verify all partitions, up to their committed offsets; it raises what `verify_each` does.

        Where models are merged, all partitions are learned at the same time, which takes memory for a model of each,
        and each merged model is made again.
        """
        numbers = range(self._logs.partition_count(self._provenance.topics.examples))
        if self._merges is None or self._provenance.merging is None:
            return self.verify_each(numbers)
        self._look_ahead(numbers, None)
        self._merges.read_on()
        with ExitStack() as opened:
            lanes = {number: Lane(opened.enter_context(closing(self._relearn(number, None)))) for number in numbers}
            faults = Faults()
            made = make_again(self._merges, lanes, self._provenance.merging.parents, faults)
            first, *others = (lane.report for lane in lanes.values())
        found = [*first.faults, *faults.first]
        return [
            first._replace(fault_count=first.fault_count + faults.counts.total(), faults=found, made_again=made),
            *others,
        ]

    def _look_ahead(self, numbers: Sequence[int], to: int | None) -> None:
        """Count how many examples there are to learn, and report the progress."""
        for number, committed in self._logs.committed_now(numbers).items():
            if committed is not None:
                lineage, snapshot, _ = self._provenance.read_metadata(number, committed)
                low = self._logs.log_range(self._provenance.topics.examples, number).low
                stop = committed.offset if to is None else to
                start = (
                    lineage.start if behind_gap(lineage.start, lineage.gaps) >= low or snapshot is None else snapshot.at
                )
                self._reached[number] = (0, max(stop - start, 0))
        self._tell()

    def _tell(self) -> None:
        self._progress(*map(sum, zip((0, 0), *self._reached.values(), strict=True)))

    def _relearn(self, number: int, to: int | None) -> Relearning:
        """Verify a partition; yield its model at each boundary, and return the report."""
        topic = self._provenance.topics.examples
        committed = self._logs.committed_now([number])[number]
        if committed is None:
            return self._unanswered(number)
        if to is not None and to > committed.offset:
            raise ConfigurationError(
                f"expected the end of the verification at most at the committed offset {committed.offset} of "
                f"{topic}-{number} in group {self._provenance.group}, found {to}: what follows has no answers yet"
            )
        stop = committed.offset if to is None else to
        high = self._logs.log_range(topic, number).high
        if stop > high:
            raise GapError(f"expected {topic}-{number} to reach offset {stop}, found its end at {high}")
        faults = Faults()
        try:
            replay = self._replay(number, committed, stop, faults)
        except GapError as error:
            return self._unlearned(number, committed, stop, str(error), faults)
        lineages = self._provenance.lineages(number, replay.metadata.lineage)
        try:
            predictions, letters = yield from self._compare(replay, lineages, faults)
        except GapError as error:  # retention has deleted records meanwhile
            replay.records = 0  # records that were learned don't count, as not all their answers were looked for
            return self._report(replay, Unproved(replay.start, stop, str(error)), faults)
        self._check_digest(replay, replay.metadata.snapshot, faults)
        if replay.crossing is not None:
            left_out = range(0) if replay.unproved is None else range(*replay.unproved[:2])
            proved = range(0 if replay.from_start else replay.start + 1, stop)
            replay.crossing.finish(proved, left_out, number)
        report = self._report(replay, replay.unproved, faults)
        return report._replace(
            predictions=predictions.published(replay.predictions),
            dead_letters=letters.published(replay.dead_letters),
        )

    def _report(self, replay: Replay, unproved: Unproved | None, faults: Faults) -> Report:
        metadata, crossing = replay.metadata, replay.crossing
        lineage = metadata.lineage
        origin: Literal["start", "snapshot"] = "start" if replay.from_start else "snapshot"
        return Report(
            replay.model.partition,
            lineage.model,
            Covered(origin, replay.start, replay.stop, replay.records, unproved, lineage.start),
            gaps=lineage.gaps,
            snapshot=metadata.snapshot,
            relearned=replay.digest,
            fault_count=faults.counts.total(),
            faults=faults.first,
            boundaries=None if crossing is None else crossing.counts,
        )

    def _replay(self, number: int, committed: Committed, stop: int, faults: Faults) -> Replay:
        """Return the replay of a partition; GapError if records are gone that it needs."""
        metadata, restored = self._newest(number, committed, faults)
        if self._merges is not None:
            self._merges.read_on()
            self._merges.compare(number, metadata, faults)
        try:
            model = self._sources.from_start(number, metadata)
        except GapError:
            if restored is None:
                raise
            self._check_records_behind(restored, number, metadata.lineage, stop)
            model = restored
        # The snapshot's model is kept in memory only if records of boundaries may be gone: then it may be needed.
        spare = restored if self._merges is not None and self._merges.low > 0 and model is not restored else None

        def again() -> PartitionModel | None:
            if spare is not None:
                return spare
            stored = self._sources.stored(number, committed)
            return stored.model if stored.metadata == metadata else None

        return self._sources.replay(model, metadata, stop, faults, again)

    def _unlearned(self, number: int, committed: Committed, stop: int, why: str, faults: Faults) -> Report:
        """Return the report if the model can't be learned; the outputs are still searched for other faults."""
        metadata = self._provenance.read_metadata(number, committed)
        lineage, topic = metadata.lineage, self._provenance.topics.examples
        models = self._provenance.fingerprints(number, lineage)
        subject = Subject(topic, number, models, range(lineage.start, stop), gaps=[range(*gap) for gap in lineage.gaps])
        self._reached[number] = (0, 0)
        predictions, letters = self._drain(subject, faults)
        return Report(
            number,
            lineage.model,
            Covered("snapshot", stop, stop, 0, Unproved(lineage.start, stop, why), lineage.start),
            predictions,
            letters,
            lineage.gaps,
            metadata.snapshot,
            fault_count=faults.counts.total(),
            faults=faults.first,
        )

    def _drain(self, subject: Subject, faults: Faults) -> tuple[Published, Published]:
        """Judge the outputs without comparing answers; return how many of their messages are of other groups."""
        with ExitStack() as opened:
            logs = self._outputs.open_up(opened, subject, faults)
            for log in logs:
                log.drain()
        predictions, *letters = (log.foreign for log in logs)
        return Published(foreign=predictions), Published(foreign=sum(letters))

    def _newest(
        self, number: int, committed: Committed, faults: Faults
    ) -> tuple[OffsetMetadata, PartitionModel | None]:
        """Return the committed metadata, and the newest snapshot's model, if there is one that can be restored."""
        metadata, model, fault = self._sources.stored(number, committed)
        if fault is not None and metadata.snapshot is not None:
            text = f"expected a snapshot that can be restored, found: {fault}"
            place = (self._provenance.topics.models, number, metadata.snapshot.first, metadata.snapshot.at)
            faults.add(Fault(Kind.SNAPSHOT, *place, text))
        return metadata, model

    def _check_records_behind(self, restored: PartitionModel, number: int, lineage: Lineage, stop: int) -> None:
        """Raise GapError if records after the snapshot are gone, ConfigurationError if `stop` lies before it."""
        topic, needed = self._provenance.topics.examples, restored.next_offset
        self._sources.check_records(number, lineage, needed)
        if stop < needed:
            raise ConfigurationError(
                f"expected the end of the verification of {topic}-{number} at or behind the newest snapshot at offset "
                f"{needed}, because the records before {self._logs.log_range(topic, number).low} are gone, found {stop}"
            )

    def _unanswered(self, number: int) -> Report:
        """Return the report if there is no model yet; outputs are searched for unreadable and misplaced messages."""
        topics, faults = self._provenance.topics, Faults()
        low = self._logs.log_range(topics.examples, number).low
        predictions = letters = Published()
        if number < self._logs.partition_count(topics.predictions):
            predictions, letters = self._drain(Subject(topics.examples, number), faults)
        nothing = Covered(None, low, low)
        return Report(
            number, None, nothing, predictions, letters, fault_count=faults.counts.total(), faults=faults.first
        )

    def _compare(
        self, replay: Replay, lineages: Sequence[Lineage], faults: Faults
    ) -> Generator[PartitionModel, None, tuple[OutputCheck, OutputCheck]]:
        """Learn all records, and compare the answers with what was published; yield the model at each boundary."""
        topic, number, gaps = self._provenance.topics.examples, replay.model.partition, lineages[-1].gaps
        subject = Subject(
            topic,
            number,
            [lineage.model for lineage in lineages],
            range(lineages[0].start, replay.stop),
            range(replay.start, replay.stop),
            [range(*gap) for gap in gaps],
        )
        with ExitStack() as opened:
            logs = self._outputs.open_up(opened, subject, faults)
            predictions, letters = (OutputCheck(log, replay.start) for log in logs[:2])
            offsets = range(behind_gap(replay.start, gaps), replay.stop)
            examples = LogScan(self._logs, topic, number, offsets, self._fetch_records)
            if replay.model.held is not None:
                yield from replay.stand()
            for records in opened.enter_context(closing(examples)).batches():
                answers, known = Outputs([], []), replay.unproved
                yield from replay.learn(records, answers)
                if replay.unproved is not None and known is None:
                    for log in logs[:2]:  # the model's answers to these examples are not known
                        log.leave_out(range(*replay.unproved[:2]))
                for run in answers.predictions:
                    predictions.expect_all(run)
                for answer in answers.dead_letters:
                    letters.expect(answer)
                self._reached[number] = (replay.model.next_offset - replay.start, replay.stop - replay.start)
                self._tell()
            replay.finish()
            yield from self._look_behind(replay, faults)
            predictions.finish()
            letters.finish()
            for log in logs[2:]:
                log.drain()
        return predictions, letters

    def _look_behind(self, replay: Replay, faults: Faults) -> StandStill:
        """If a round ends at the replay's stop, have the model look at the next record, which shows that."""
        if not replay.lacks_boundary:
            return
        topic, number, stop = self._provenance.topics.examples, replay.model.partition, replay.stop
        record = first_record(self._logs, topic, number, range(stop, self._logs.log_range(topic, number).high))
        if record is not None:
            yield from replay.look_behind(record)
        if replay.lacks_boundary:
            text = "expected a round to end here, as is noted beside the committed offset, found none to end"
            faults.add(Fault(Kind.ADOPTION_STRAY, topic, number, stop, stop, text))

    def _check_digest(self, replay: Replay, pointer: SnapshotPointer | None, faults: Faults) -> None:
        if pointer is None or replay.digest in (None, pointer.digest):
            return
        text = (
            f"expected the model learned again to have digest {pointer.digest} at offset {pointer.at}, "
            f"found {replay.digest}"
        )
        number = replay.model.partition
        faults.add(Fault(Kind.SNAPSHOT, self._provenance.topics.models, number, pointer.first, pointer.at, text))
