"""The promises, checked from outside: learn a partition again and hold everything that was published against it.

What is committed names the model. It is learned anew from its first record, if the log still has it, else from its
newest snapshot (then only what came after that is proved), and must lead to the same predictions, the same dead
letters and, where the newest snapshot was taken, to the same state. Nothing is asked of the workers, who may go on.

What is read of an output ends where it ended when it was opened. All partitions of the outputs are read if all of the
examples are verified: a copy in another partition shows where it is.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Literal

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.runtime.lineage import Gap, Lineage, OffsetMetadata, Provenance, SnapshotPointer
from stream_apple.runtime.log_scan import LogScan
from stream_apple.runtime.partition_model import ModelFactory, PartitionModel
from stream_apple.runtime.ports import Committed, Record
from stream_apple.runtime.snapshots.store import FEW_LARGE, Logs, SnapshotStore
from stream_apple.runtime.verification.answer_log import (
    AnswerLog,
    Origin,
    OutputPartition,
    Reach,
    Subject,
    origin_of_dead_letter,
    origin_of_prediction,
)
from stream_apple.runtime.verification.comparison import Comparison
from stream_apple.runtime.verification.crossing import Crossing
from stream_apple.runtime.verification.faults import Fault, Faults, Kind
from stream_apple.runtime.verification.lockstep import Lane, Relearning, make_again
from stream_apple.runtime.verification.merges_log import MergesLog
from stream_apple.runtime.verification.replay import Answers, Replay, StandStill
from stream_apple.runtime.verification.report import Covered, Published, Report, ReportProgress


class Verifier:
    """Verifies the partitions of one group, one at a time, `fetch_records` examples at a time."""

    def __init__(
        self, logs: Logs, provenance: Provenance, new_model: ModelFactory, fetch_records: int, progress: ReportProgress
    ) -> None:
        self._logs = logs
        self._provenance = provenance
        self._new_model = new_model
        self._store = SnapshotStore(logs, provenance, new_model)
        self._fetch_records = fetch_records
        self._progress = progress
        self._looked_at: set[tuple[str, int]] = set()  # partitions of the outputs
        self._merges = None if provenance.merging is None else MergesLog(logs, provenance)

    def verify(self, number: int, to: int | None = None) -> Report:
        """Verify the answers to the examples of a partition before offset `to`, or else the committed offset.

        GapError if records are gone that it takes, ConfigurationError if `to` is out of range or the committed offset
        is of a model of other settings.
        """
        lane = Lane(self._relearn(number, to))
        lane.finish()
        return lane.report

    def verify_all(self) -> list[Report]:
        """Verify all partitions, up to their committed offsets; errors as of `verify`.

        Where models are merged, all partitions are learned at once, and each merged model is made again of theirs:
        there is memory for one model of each.
        """
        topics = self._provenance.topics
        numbers = range(self._logs.partition_count(topics.examples))
        if self._merges is None or self._provenance.merging is None:
            return [self.verify(number) for number in numbers]
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

    def _relearn(self, number: int, to: int | None) -> Relearning:
        """Verify a partition, giving way at its boundaries."""
        topic = self._provenance.topics.examples
        committed = self._logs.committed([number])[number]
        if committed is None:
            return self._unanswered(number)
        if to is not None and to > committed.offset:
            raise ConfigurationError(
                f"expected the end of the verification at most at the committed offset {committed.offset} of "
                f"{topic}-{number} in group {self._provenance.group}, found {to}: what follows has no answers yet"
            )
        stop = committed.offset if to is None else to
        faults = Faults()
        metadata, restored = self._newest(number, committed, faults)
        self._read_merges(number, metadata, faults)
        lineages = self._provenance.lineages(number, metadata.lineage)
        origin: Literal["start", "snapshot"] = "start"
        model = self._from_start(number, metadata, lineages[0], stop)
        if model is None:
            origin, model = "snapshot", self._from_snapshot(number, metadata, restored, stop)
        # Memory for one model is enough, unless what it takes to go through boundaries may be gone.
        spare = restored if self._merges is not None and self._merges.low > 0 and origin == "start" else None
        restored = None
        crossing = self._crossing(number, committed, metadata, faults, spare)
        replay = Replay(model, metadata, lineages, stop, crossing)
        predictions, letters = yield from self._compare(replay, lineages, faults)
        self._check_digest(replay, metadata.snapshot, faults)
        unproved = replay.unproved
        if crossing is not None:
            left_out = range(0) if unproved is None else range(unproved.start, unproved.stop)
            proved = range(0 if origin == "start" else replay.start + 1, stop)
            crossing.finish(proved, left_out, number)
        return Report(
            number,
            metadata.lineage.model,
            Covered(origin, replay.start, stop, replay.records, unproved),
            _published(replay.predictions, predictions),
            _published(replay.dead_letters, letters),
            metadata.lineage.gaps,
            metadata.snapshot,
            replay.digest,
            faults.counts.total(),
            faults.first,
            None if crossing is None else crossing.counts,
        )

    def _crossing(
        self,
        number: int,
        committed: Committed,
        metadata: OffsetMetadata,
        faults: Faults,
        spare: PartitionModel | None,
    ) -> Crossing | None:
        """How the partition goes through boundaries. `spare`: the model in its newest snapshot, if it has been kept."""
        if self._merges is None:
            return None

        def again() -> PartitionModel | None:
            if spare is not None:
                return spare
            stored = self._store.newest(number, committed)
            return self._restored(stored.model, stored.metadata) if stored.metadata == metadata else None

        return Crossing(self._merges, self._provenance, number, metadata, faults, again)

    def _read_merges(self, number: int, metadata: OffsetMetadata, faults: Faults) -> None:
        """Read all that was recorded before `metadata` was committed, and hold it against that.

        What is noted beside partition 0 about the newest merged model must be there, if it is not gone.
        """
        if self._merges is None:
            return
        self._merges.read_on()
        self._merges.tell(faults)
        pointer = None if metadata.merge is None else metadata.merge.merged
        if pointer is None or pointer.first < self._merges.low:
            return
        if pointer not in [each.pointer for each in self._merges.merges]:
            text = f"round {pointer.round}: expected its merged model in messages {pointer.first} to {pointer.last}"
            place = (self._provenance.topics.merges, 0, pointer.first, None)
            faults.add(Fault(Kind.MERGED, *place, f"{text}, as is noted beside partition {number}, found none there"))

    def _restored(self, model: PartitionModel | None, metadata: OffsetMetadata) -> PartitionModel | None:
        """A model that has come out of a snapshot: whether it stands at a boundary, only the note tells."""
        if model is not None and model.rounds is not None and metadata.merge is not None:
            model.rounds.restore(metadata.merge.boundary, model.next_offset)
        return model

    def _newest(
        self, number: int, committed: Committed, faults: Faults
    ) -> tuple[OffsetMetadata, PartitionModel | None]:
        """What is committed, and the model in the newest snapshot if there is one that can be read."""
        metadata, model, fault = self._store.newest(number, committed)
        if fault is not None and metadata.snapshot is not None:
            text = f"expected a snapshot that can be restored, found: {fault}"
            place = (self._provenance.topics.models, number, metadata.snapshot.first, metadata.snapshot.at)
            faults.add(Fault(Kind.SNAPSHOT, *place, text))
        return metadata, self._restored(model, metadata)

    def _from_start(self, number: int, metadata: OffsetMetadata, first: Lineage, stop: int) -> PartitionModel | None:
        """A new model, if the log still has all that it takes."""
        topic, lineage = self._provenance.topics.examples, metadata.lineage
        log = self._logs.log_range(topic, number)
        if stop > log.high:
            raise GapError(f"expected {topic}-{number} to reach offset {stop}, found its end at {log.high}")
        return self._new_model(number, first).begin() if _behind_gap(lineage.start, lineage.gaps) >= log.low else None

    def _from_snapshot(
        self, number: int, metadata: OffsetMetadata, restored: PartitionModel | None, stop: int
    ) -> PartitionModel:
        """The model in the newest snapshot; GapError if the log does not have what follows it."""
        topic, lineage = self._provenance.topics.examples, metadata.lineage
        low = self._logs.log_range(topic, number).low
        needed = lineage.start if restored is None else restored.next_offset
        if restored is None or _behind_gap(needed, lineage.gaps) < low:
            raise GapError(
                f"expected the records of {topic}-{number} from offset {needed} on, to learn model {lineage.model} "
                f"of group {self._provenance.group} again, found {low} as the first: the others are gone"
            )
        if stop < needed:
            raise ConfigurationError(
                f"expected the end of the verification of {topic}-{number} at or behind the newest snapshot at offset "
                f"{needed}, because the records before {low} are gone, found {stop}"
            )
        return restored

    def _unanswered(self, number: int) -> Report:
        """There is no model yet; its outputs must not hold what nobody can use, or what belongs elsewhere."""
        topics, faults = self._provenance.topics, Faults()
        low = self._logs.log_range(topics.examples, number).low
        foreign = [0, 0]
        if number < self._logs.partition_count(topics.predictions):
            with ExitStack() as opened:
                logs = self._answer_logs(opened, Subject(topics.examples, number), faults)
                for log in logs:
                    log.drain()
                foreign = [log.foreign for log in logs]
        predictions, letters = Published(foreign=foreign[0]), Published(foreign=sum(foreign[1:]))
        nothing = Covered(None, low, low)
        return Report(
            number, None, nothing, predictions, letters, fault_count=faults.counts.total(), faults=faults.first
        )

    def _compare(
        self, replay: Replay, lineages: Sequence[Lineage], faults: Faults
    ) -> Generator[PartitionModel, None, tuple[Comparison, Comparison]]:
        """Learn all records, and hold what was published against the answers."""
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
            logs = self._answer_logs(opened, subject, faults)
            predictions, letters = (Comparison(log, replay.start) for log in logs[:2])
            examples = self._scan(topic, number, _behind_gap(replay.start, gaps), replay.stop, self._fetch_records)
            if replay.model.held is not None:
                yield from replay.stand()
            for records in opened.enter_context(closing(examples)).batches():
                answers, known = Answers([], []), replay.unproved
                yield from replay.learn(records, answers)
                if replay.unproved is not None and known is None:
                    predictions.leave_out(range(*replay.unproved[:2]))
                    letters.leave_out(range(*replay.unproved[:2]))
                for answer in answers.predictions:
                    predictions.expect(answer)
                for answer in answers.dead_letters:
                    letters.expect(answer)
                self._progress(number, replay.start, replay.model.next_offset, replay.stop)
            replay.finish()
            yield from self._look_behind(replay, faults)
            predictions.finish()
            letters.finish()
            for log in logs[2:]:
                log.drain()
        return predictions, letters

    def _look_behind(self, replay: Replay, faults: Faults) -> StandStill:
        """If a round ends where the examples in question do, the record behind shows that."""
        if not replay.lacks_boundary:
            return
        topic, number, stop = self._provenance.topics.examples, replay.model.partition, replay.stop
        with closing(self._scan(topic, number, stop, self._logs.log_range(topic, number).high, 1)) as scan:
            record = scan.take()
        if record is not None:
            yield from replay.look_behind(record)
        if replay.lacks_boundary or replay.model.next_offset != stop:
            text = "expected a round to end here, as is noted beside the committed offset, found none to end"
            faults.add(Fault(Kind.ADOPTION_STRAY, topic, number, stop, stop, text))

    def _answer_logs(self, opened: ExitStack, subject: Subject, faults: Faults) -> list[AnswerLog]:
        """Where predictions and dead letters are, and then the partitions of the dead letters where none may be."""
        topics, number = self._provenance.topics, subject.partition
        count, letters = (self._logs.partition_count(topic) for topic in (topics.examples, topics.dead_letters))

        def prediction_home(partition: int) -> int | None:
            return partition if partition < count else None

        def letter_home(partition: int) -> int | None:
            return partition % letters if partition < count else None

        outputs = [self._output(topics.predictions, number, origin_of_prediction, prediction_home)] + [
            self._output(topics.dead_letters, partition, origin_of_dead_letter, letter_home)
            for partition in (number % letters, *range(count + number, letters, count))
        ]

        def committed(found: Mapping[int, Committed | None]) -> int:
            told = found[number]
            return subject.answered.stop if told is None else told.offset

        # Only now that the ends of the outputs are known: what was published before is within these.
        reach = Reach(
            self._logs.log_range(topics.examples, number).high,
            committed(self._logs.committed([number])),
            lambda: committed(self._logs.decided([number])),
        )
        logs = []
        for output in outputs:
            fetch = self._fetch_records if output.topic == topics.predictions else FEW_LARGE
            scan = self._scan(output.topic, output.partition, output.low, output.end, fetch)
            logs.append(AnswerLog(opened.enter_context(closing(scan)), output, subject, reach, faults))
        return logs

    def _output(
        self,
        topic: str,
        partition: int,
        identify: Callable[[Record], Origin | None],
        home: Callable[[int], int | None],
    ) -> OutputPartition:
        log, place = self._logs.log_range(topic, partition), (topic, partition)
        first_look = place not in self._looked_at
        self._looked_at.add(place)
        one_group = topic == self._provenance.topics.predictions
        return OutputPartition(topic, partition, log.low, log.high, identify, home, one_group, first_look)

    def _check_digest(self, replay: Replay, pointer: SnapshotPointer | None, faults: Faults) -> None:
        if pointer is None or replay.digest in (None, pointer.digest):
            return
        text = (
            f"expected the model learned again to have digest {pointer.digest} at offset {pointer.at}, "
            f"found {replay.digest}"
        )
        number = replay.model.partition
        faults.add(Fault(Kind.SNAPSHOT, self._provenance.topics.models, number, pointer.first, pointer.at, text))

    def _scan(self, topic: str, partition: int, start: int, end: int, fetch_records: int) -> LogScan:
        reader = self._logs.reader(topic, partition, start)
        return LogScan(reader, f"{topic}-{partition}", end, fetch_records)


def _published(expected: int, comparison: Comparison) -> Published:
    return Published(expected, comparison.matched, comparison.earlier, comparison.gone, comparison.foreign)


def _behind_gap(offset: int, gaps: Sequence[Gap]) -> int:
    """Where a model that stands at `offset` reads on."""
    return next((gap.stop for gap in gaps if gap.start == offset), offset)
