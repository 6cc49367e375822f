"""One partition's model, and what happens to a batch of its records: triage, learn, encode.

    records   -> Triage             examples with their epochs, and rejects with their reasons
    examples  -> Learner            in runs of one epoch; the model grows before the first example of a new epoch
    scores    -> PredictionEncoder

The result is a function of the sequence of records alone, however it is divided into calls. Nothing here knows
Kafka: a record is anything with the methods of `ports.Record`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, Limits
from stream_apple.core.event_time import EpochClock
from stream_apple.errors import ModelError
from stream_apple.learners.loss_functions import write_probabilities
from stream_apple.learners.merging_port import Mergeable
from stream_apple.learners.port import Change, LearnerOptions
from stream_apple.learners.progress.progressive_loss import LossReport
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import merging_of, new_learner
from stream_apple.records.framing import Schemas
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.prediction_formats import MSGPACK, PredictionFormat
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain
from stream_apple.records.record_reader import MappedReader
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import Reject
from stream_apple.stream.model.early_scores import EarlyScores
from stream_apple.stream.model.model_image import Ended, ModelImage
from stream_apple.stream.model.reject_counter import RejectCounter, RejectLimits
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.model.time_budget import Step, TimeBudget
from stream_apple.stream.model.triage import Triage, Triaged
from stream_apple.stream.positions.lineage import Gap, Lineage, Skip

_ATTACHED = "attached_"


class ModelSettings(NamedTuple):
    """Holds all that the result depends on besides the records.

    merge_every  epochs of a round, 0 if nothing is merged
    start        the model that every model starts from; None: it starts from nothing
    mapping      says which fields of a record are what; None: records are messages in the product's own format
    schemas      of a registry, for records that are framed; if there are any, all records are read by a mapping
    predictions  the format in which they are written
    each_digest  whether every end of an epoch has a digest; else, as in a replay, only the last end of a batch has one
    """

    options: LearnerOptions
    limits: Limits
    epoch_length_ms: int
    max_ahead_ms: int
    reject_limits: RejectLimits
    merge_every: int = 0
    start: Mergeable | None = None
    mapping: InputMapping | None = None
    schemas: Schemas | None = None
    predictions: PredictionFormat = MSGPACK
    each_digest: bool = True

    @property
    def mapped(self) -> bool:
        """Whether records have another shape than the product's own messages, or are framed."""
        return self.mapping is not None or self.schemas is not None

    def decoder(self) -> Decoder:
        """Return a decoder of the records that such models learn from."""
        reader = MappedReader(self.mapping or OWN_MESSAGE, self.schemas) if self.mapped else None
        return Decoder(self.limits, self.options.wanted_columns(), reader)


class EpochEnd(NamedTuple):
    """An epoch that ended before the record at `offset` was scored.

    growth  how the model grew; in a replay its census may be empty if a later epoch ended in the same batch
    digest  of the learner after it grew; in a replay it may be "" for the same reason
    """

    epoch: int
    offset: int
    growth: Change
    digest: str
    losses: LossReport


class BatchResult(NamedTuple):
    """Holds what is to be published of a batch, and counts what became of its records.

    predictions  one message for each example from `publish_from` on
    examples     the record that each prediction belongs to
    timestamps   of those records, milliseconds since 1970
    rejects      in record order, from `publish_from` on
    ends         epochs that ended inside the batch
    learned      labelled examples from `publish_from` on
    unlabelled   examples without a label from `publish_from` on
    replayed     records before `publish_from`
    next_offset  the first offset after the batch
    seconds      that each step took
    lineage      of the model from this batch on, if it has changed; the batch's outputs name it
    boundary     the end of the round at which the model has stopped, having ended its epoch; None: it has not stopped
    left_out     how many features of the examples, from `publish_from` on, could not be read
    """

    predictions: list[bytes]
    examples: Sequence[Record]
    timestamps: list[int]
    rejects: list[Reject]
    ends: list[EpochEnd]
    learned: int
    unlabelled: int
    replayed: int
    next_offset: int
    seconds: Mapping[Step, float]
    lineage: Lineage | None = None
    boundary: Boundary | None = None
    left_out: int = 0


Look = Callable[[Batch, int, int], None]
"""Called with (batch, start, stop): the rows that a model scores and learns next."""


class PartitionModel:
    """The whole state of one input partition, and the only code that changes it.

    limits        of records; the bounds of outputs follow from them
    clock         of the partition's event time
    rejects       counts the latest records that could not be used
    rounds        at whose ends the model stops to be merged; None if it never does
    lineage       says where the model begins and what it leaves out; a new model's `next_offset` is its start
    next_offset   the first offset that the model has not learned
    publish_from  records before this offset are learned and give no output: their outputs are committed already
    ended         the last epoch that has ended; replaced as a whole, as other threads read it
    skips         records that are not to be learned, in their order
    early         the scores whose labels come later
    attachments   arrays that other modules keep with its snapshots, by name: no digest covers them, and nothing here
                  reads them; any thread may replace the mapping as a whole
    """

    def __init__(self, topic: str, partition: int, lineage: Lineage, settings: ModelSettings, decoder: Decoder) -> None:
        self.topic = topic
        self.partition = partition
        self.lineage = lineage
        self.next_offset = lineage.start
        self.publish_from = lineage.start
        self.skips: deque[Skip] = deque()
        self.learner = new_learner(settings.options)
        self.ended = Ended()
        self.attachments: Mapping[str, NDArray[np.generic]] = {}
        self.limits = settings.limits
        self.clock = EpochClock(settings.epoch_length_ms, settings.max_ahead_ms)
        self.rejects = RejectCounter(settings.reject_limits)
        self.rounds = Rounds(settings.merge_every) if settings.merge_every else None
        self._triage = Triage(
            f"{topic}-{partition}", decoder, self.limits, self.clock, self.rejects, self.rounds, settings.predictions
        )
        self._predictions = settings.predictions
        self._each_digest = settings.each_digest
        self.early = EarlyScores(settings.options, self.learner.units)
        self._encoder = PredictionEncoder(topic, partition, lineage.model)
        self._start = settings.start

    @property
    def held(self) -> Boundary | None:
        """Return the boundary at which the model waits to be merged, and learns nothing; None if it does not wait."""
        return None if self.rounds is None else self.rounds.held

    @property
    def sums(self) -> dict[str, NDArray[np.generic]]:
        """Return all state by name, besides the learner's rows and `ended`: the arrays, or read-only copies."""
        return {
            **self.learner.state.sums,
            "clock": self.clock.state,
            "recent_rejects": self.rejects.recent,
            "reject_run": np.array([self.rejects.run], np.int64),
            **self.early.state,
        }

    def begin(self) -> Self:
        """Adopt the model that all start from, if there is one, before the first record; return this model.

        Call it once, of a model that is not restored from a snapshot. Counts, losses and the clock begin anew.
        """
        if self._start is not None:
            self.adopt(self._start)
            self._start = None
        return self

    def adopt(self, merged: Mergeable) -> None:
        """Make the merged model the learner's own, see `learners/merging_port.py`."""
        before = self.learner.units.scale
        merging_of(self.learner.options).adopt(self.learner, merged)
        self.early.change_units(before)

    def restore(self, next_offset: int, ended: Ended, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state at `next_offset`; the caller has already written the learner's rows.

        ValueError if `sums` are not those of such a model.
        """
        left = dict(sums)
        self.early.restore(left)
        clock, recent, run = (left.pop(name, None) for name in ("clock", "recent_rejects", "reject_run"))
        if clock is None or recent is None or run is None or len(clock) != len(self.clock.state):
            raise ValueError(f"expected a clock and the recent rejects, found {', '.join(sorted(sums))}")
        self.learner.restore(left)
        self.clock.state[:] = clock
        self.rejects.recent = recent.astype(np.bool_)
        self.rejects.run = int(run[0])
        self.next_offset = next_offset
        self.ended = ended
        self._start = None

    def restore_observed(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over, after `restore`, what a snapshot has besides the state: counts for display, and attachments.

        ValueError for counts of other names, dtypes, or shapes than the model's.
        """
        self.attachments = {
            name.removeprefix(_ATTACHED): array for name, array in observed.items() if name.startswith(_ATTACHED)
        }
        counts = {name: array for name, array in observed.items() if not name.startswith(_ATTACHED)}
        early = {name: counts.pop(name) for name in self.early.observed if name in counts}
        self.early.restore_observed(early)
        self.learner.restore_observed(counts)

    def jump(self, lineage: Lineage, gap: Gap) -> None:
        """Go on behind `gap`, which `lineage` names: its records are gone from the log."""
        self._continue(lineage)
        self.next_offset = gap.stop
        self.publish_from = max(self.publish_from, gap.stop)

    def _continue(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self._encoder = PredictionEncoder(self.topic, self.partition, lineage.model)

    def image(self) -> ModelImage:
        """Return the model's present state by reference: its arrays change as the model learns on."""
        learner = self.learner
        attached = {_ATTACHED + name: array for name, array in self.attachments.items()}
        observed = {**learner.observed, **self.early.observed, **attached}
        passed = self.rounds is not None and self.rounds.passed
        return ModelImage(self.next_offset, self.lineage, self.ended, learner.state, self.sums, observed, passed)

    def digest(self) -> str:
        """Return 32 hex digits over every bit that later outputs depend on."""
        return self.image().digest(self.learner.digest())

    def process_in_turn(self, records: list[Record]) -> Iterator[tuple[list[Record], BatchResult]]:
        """Learn the next records, in order, except those that are to be skipped and those behind a boundary.

        Yield parts of the records, each with its result; all outputs of one result are of one lineage. It raises what
        `process` raises.
        """
        while self.skips and records and records[-1].offset() >= self.skips[0].offset and self.held is None:
            offset, lineage = self.skips[0]
            before = [record for record in records if record.offset() < offset]
            if before:
                yield self._up_to_boundary(before)
                if self.held is not None:
                    return
            self.skips.popleft()
            self._continue(lineage)
            skipped = [record for record in records[len(before) : len(before) + 1] if record.offset() == offset]
            records = records[len(before) + len(skipped) :]
            yield skipped, self._skip(skipped)
        if records and self.held is None:
            yield self._up_to_boundary(records)

    def stops_before(self, record: Record) -> bool:
        """Whether the model would stop at a boundary before this record, if it came next; the model does not change."""
        return self.held is None and self._triage.is_behind(record)

    def _up_to_boundary(self, records: list[Record]) -> tuple[list[Record], BatchResult]:
        """Learn the records up to a boundary; return the learned records and the result."""
        result = self.process(records)
        if result.boundary is not None:
            records = [record for record in records if record.offset() < result.next_offset]
        return records, result

    def _skip(self, records: list[Record]) -> BatchResult:
        """Return the result of leaving out these records: one, or none if the offset to be skipped has none."""
        message = explain(Reason.SKIPPED, -1, None, self.limits)
        rejects = [Reject(each, Reason.SKIPPED, message) for each in records if each.offset() >= self.publish_from]
        if records:
            self.next_offset = records[-1].offset() + 1
        replayed = len(records) - len(rejects)
        return BatchResult([], [], [], rejects, [], 0, 0, replayed, self.next_offset, {}, self.lineage)

    def process(self, records: Sequence[Record], look: Look | None = None) -> BatchResult:
        """Learn the next records of the partition, in order, up to a boundary.

        look  is called before each run of rows, while the model is as it will be when it scores the first of them

        ModelError if a score is not finite, TooManyRejectsError if too many records can't be used. Both name the
        offset, and the model can't be used after them.
        """
        assert self._start is None, "neither begun nor restored"
        budget = TimeBudget(Step)
        lap = budget.lap
        epoch = self.clock.epoch
        triaged = self._triage.sort(records, self.next_offset, self.publish_from)
        lap(Step.DECODE)
        if self.rounds is not None and self.rounds.passed and len(triaged.epochs):
            # The earlier epoch ended at the boundary that the model has just passed.
            epoch, self.rounds.passed = int(triaged.epochs[0]), False
        scores = self._room_for_scores(triaged)
        predictions: list[bytes] = []
        ends: list[EpochEnd] = []
        runs = list(triaged.runs())
        last_end = max(
            (start for start, _ in runs if start and triaged.epochs[start - 1] < triaged.epochs[start]), default=0
        )
        for start, stop in runs:
            # The number falls where the partition's clock was set back: then no epoch has ended.
            if -1 < epoch < triaged.epochs[start]:
                offset = int(triaged.offsets[start])
                digested = start >= last_end or (self._each_digest and offset >= self.publish_from)
                ends.append(self._end_epoch(epoch, offset, digested=digested))
                lap(Step.GROW)
            epoch = int(triaged.epochs[start])
            self._learn(triaged, start, stop, scores, look)
            lap(Step.LEARN)
            first = max(start, triaged.published)
            if first < stop:
                predictions += self._encode(triaged, first, stop, scores, epoch)
                lap(Step.ENCODE)
        if triaged.behind is not None:
            records = [record for record in records if record.offset() < triaged.behind]
        if records:
            self.next_offset = records[-1].offset() + 1
        boundary = None
        if triaged.behind is not None and self.rounds is not None:
            ends.append(self._end_epoch(epoch, triaged.behind))
            boundary = self.rounds.stop(epoch, self.next_offset)
        return self._result(triaged, predictions, ends, budget.seconds, boundary)

    def _room_for_scores(self, triaged: Triaged) -> Scores:
        """Return memory for the scores of these examples: those of all classes, and early ones, if they are wanted."""
        options = self.learner.options
        every = options.classes if self._predictions.probabilities == "all" else 0
        early = options.mixed and self.early.wanted(triaged.decoded.batch.labels)
        return Scores.empty(len(triaged.epochs), every, early=early)

    def _result(
        self,
        triaged: Triaged,
        predictions: list[bytes],
        ends: list[EpochEnd],
        seconds: Mapping[Step, float],
        boundary: Boundary | None,
    ) -> BatchResult:
        first, decoded = triaged.published, triaged.decoded
        labelled = int(np.count_nonzero(~np.isnan(decoded.batch.labels[first:])))
        return BatchResult(
            predictions,
            triaged.records[first:],
            triaged.timestamps[first:].tolist(),
            triaged.rejects,
            ends,
            learned=labelled,
            unlabelled=len(predictions) - labelled,
            replayed=triaged.replayed,
            next_offset=self.next_offset,
            seconds=seconds,
            boundary=boundary,
            left_out=0 if decoded.left_out is None else int(decoded.left_out[first:].sum()),
        )

    def _encode(self, triaged: Triaged, start: int, stop: int, scores: Scores, epoch: int) -> list[bytes]:
        told, probabilities = self._predictions.probabilities, None
        if told != "none":
            probabilities = scores.probabilities
            if not self.learner.options.classes:
                write_probabilities(scores.predictions[start:stop], probabilities[start:stop])
        messages = self._encoder.encode(
            triaged.decoded,
            start,
            stop,
            scores.predictions,
            scores.losses,
            triaged.offsets,
            epoch,
            probabilities,
            scores.all_probabilities,
        )
        return self._predictions.written(messages)

    def _end_epoch(self, epoch: int, offset: int, *, digested: bool = True) -> EpochEnd:
        """Let the model grow before the example at `offset` is scored.

        A digest and a census each read the whole table, so in a replay only the last end of an epoch in a batch has
        them.
        """
        growth = self.learner.end_epoch(nominate=self.rounds is not None, counted=digested)
        self.early.end_epoch()
        self.ended = Ended(epoch, self.learner.digest() if digested else "")
        return EpochEnd(epoch, offset, growth, self.ended.digest, self.learner.progress.report("last_epoch"))

    def _learn(self, triaged: Triaged, start: int, stop: int, scores: Scores, look: Look | None) -> None:
        batch = triaged.decoded.batch
        for first, end, early in self.early.portions(triaged.decoded, start, stop, scores):
            if look is not None:
                look(batch, first, end)
            try:
                self.learner.learn(batch, first, end, scores, early)
            except ModelError as error:
                place = f"{self.topic}-{self.partition}@{triaged.offsets[error.row]}"
                raise ModelError(f"{place}: {error}", error.row) from error


ModelFactory = Callable[[int, Lineage], PartitionModel]
"""(partition, lineage) -> a model that has learned nothing."""
