"""Merging the contributions of a group's partitions: the work of the worker that owns partition 0.

It does a little in each iteration of the loop. It looks at the notes of all partitions (`committed_standings.py`),
which tell which rounds are open and when one is closed (`open_rounds.py`); it reads the contributions to a closed round
(`gathering.py`), except those of its own worker; and it has a learning thread merge them. The loop then sends and
commits the merged model in one transaction with the offset of partition 0, whose note says where the model is. So a
worker that has lost partition 0 can't commit a merge, and the next owner knows all that has been merged.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from stream_apple.core.learner.merging.merge import Parents, merge
from stream_apple.core.learner.merging.mergeable import Mergeable, ReadableModel
from stream_apple.core.learner.options import Options
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.merging.committed_standings import CommittedStandings, LocalPartitions
from stream_apple.stream.merging.gathering import DisplacedError, Gathering
from stream_apple.stream.merging.merge_log import MergedModel, MergeLog
from stream_apple.stream.merging.open_rounds import ClosedRound, OpenRounds
from stream_apple.stream.model.partition_model import ModelFactory
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import MergeManifest, encode_merge, merge_key

POLL_S = 0.2
"""The longest time between two looks at the notes of all partitions, which may wait for that long."""
LEAST_POLL_S = 0.02
"""The same when a round has just been opened."""
_ITERATION_S = 0.05  # for reading in an iteration of the loop: partitions wait meanwhile

_log = structlog.get_logger()

Message = tuple[bytes, bytes]
"""Key and value."""


class MergeSummary(NamedTuple):
    """Describes a merge for metrics and the log.

    roster        the partitions in it
    excluded      each partition that is not in it -> why, an `ExclusionReason`
    seconds       from the round's closing to the commit
    lost_parents  nominees without enough votes, and parents that found no slot
    """

    round: int
    roster: tuple[int, ...]
    excluded: Mapping[int, str]
    seconds: float
    read_bytes: int
    written_bytes: int
    lost_parents: int


class MergeRecorder(Protocol):
    """Counts merges that are committed."""

    def merged(self, summary: MergeSummary) -> None:
        """Note that a merge of the leader is committed."""
        ...


def pause_s(waited: float, least: float, most: float) -> float:
    """Return the seconds between two looks at what others do, when one has waited for `waited` seconds already.

    It is a tenth of these, within [least, most]: so looking adds little to a wait, and costs the broker little.
    """
    return min(max(waited / 10, least), most)


class _MadeMerge(NamedTuple):
    """Holds a merge that is made, and its messages once they are encoded."""

    model: Mergeable
    manifest: MergeManifest
    began: float
    read_bytes: int
    messages: Sequence[Message] = ()

    def encode(self, group: str) -> list[Message]:
        """Return the messages of the merged model."""
        values, number = encode_merge(group, self.manifest, self.model), self.manifest.round
        return [(merge_key(group, number, index), value) for index, value in enumerate(values)]


class Leader:
    """Merges the contributions of partitions, while partition 0 is this worker's and live.

    options    of the models
    new_model  makes a model that has learned nothing
    run        has a learning thread make a call, and calls the second function with its result on the loop's thread
    metrics    told of merges
    newest     where the newest merged model is, by the committed note of partition 0; later merges change it
    local      the partitions of the same worker
    threads    how many merge at once
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        options: Options,
        new_model: ModelFactory,
        run: Callable[[Callable[[], object], Callable[[object], None]], None],
        metrics: MergeRecorder,
        newest: MergedPointer | None,
        local: LocalPartitions,
        now: Callable[[], float] = time.monotonic,
        threads: int = 1,
    ) -> None:
        assert provenance.merging is not None
        self._threads = threads
        self.newest = newest
        self._local = local
        self._broker = broker
        self._provenance = provenance
        self._new_model = new_model
        self._run = run
        self._metrics = metrics
        self._now = now
        self._standings = CommittedStandings(broker, provenance, local, now)
        self._log = MergeLog(broker, provenance, options, now)
        self._rounds = OpenRounds(provenance.merging.patience_s)
        self._next_look = now()
        self._work: Gathering | _PlannedMerge | _MadeMerge | None = None
        self._encoding: _MadeMerge | None = None

    @property
    def ready(self) -> Sequence[Message] | None:
        """Return the messages of a merge that is to be sent and committed with partition 0; None: there are none."""
        return self._work.messages or None if isinstance(self._work, _MadeMerge) else None

    @property
    def made(self) -> MergedModel | None:
        """Return a merged model that is to be committed; partitions of this worker may adopt it already. None: none."""
        work = self._work
        return MergedModel(None, work.manifest, work.model) if isinstance(work, _MadeMerge) else None

    def step(self) -> None:
        """Do a little of the leader's work; SnapshotError if the earlier merges can't be read."""
        if self._log.history is None:
            self._log.follow(self.newest)
            self._log.read_on()
        elif isinstance(self._work, Gathering):
            self._gather(self._work)
        elif self._work is None and self._now() >= self._next_look:
            self._look(self._log.history)

    @property
    def busy(self) -> bool:
        """Whether the next step has something to do, and need not wait for others."""
        return self._log.history is None or self._work is not None

    @property
    def next_look(self) -> float:
        """Return when the next look at the notes is due, if it is not busy; in seconds of the clock."""
        return self._next_look

    def borrows(self, partition: int) -> bool:
        """Whether a thread reads this partition's model, so that the partition must not go on yet."""
        return isinstance(self._work, _PlannedMerge) and any(
            each.partition == partition for each in self._work.closed.roster
        )

    def look_soon(self) -> None:
        """Look at the notes of all partitions in the next step, as one of them has just changed."""
        self._next_look = self._now()

    def committed(self, pointer: MergedPointer) -> MergedModel:
        """Note that the merge that was ready is committed, with its pointer beside partition 0; return it so."""
        outcome = self._work
        assert isinstance(outcome, _MadeMerge)
        self._work = self._encoding = None
        self.newest = pointer
        self._log.wrote(pointer)
        manifest, counts = outcome.manifest, outcome.manifest.counts
        summary = MergeSummary(
            manifest.round,
            tuple(each.partition for each in manifest.roster),
            {each.partition: each.reason for each in manifest.excluded},
            self._now() - outcome.began,
            outcome.read_bytes,
            sum(len(value) for _, value in outcome.messages),
            counts["parents_lost"] + counts["parents_evicted"],
        )
        self._metrics.merged(summary)
        _log.info(
            "round_merged",
            round=summary.round,
            roster=list(summary.roster),
            excluded={str(number): reason for number, reason in summary.excluded.items()},
            digest=manifest.digest,
            bytes=summary.written_bytes,
            seconds=round(summary.seconds, 3),
            monomials=counts["kept"],
            dropped=counts.get("models_dropped", 0),
            lost_parents=summary.lost_parents,
        )
        return MergedModel(pointer, manifest, outcome.model)

    def close(self) -> None:
        """Drop all work, and close all readers that are open."""
        if isinstance(self._work, Gathering):
            self._work.close()
        self._work = self._encoding = None
        self._log.drop()

    def _look(self, history: MergeHistory) -> None:
        if self._rounds.ends_matter:
            self._standings.look_at_ends()
        standings = self._standings.look()
        opened = self._rounds.observe(standings, history, self._now())
        if opened:
            # There may be more partitions than when the last round was opened.
            self._standings.count()
            standings = self._standings.look()
            opened += self._rounds.observe(standings, history, self._now())
        for number in opened:
            waiting = [partition for partition, each in enumerate(standings) if each.contribution(number) is not None]
            _log.info("round_opened", round=number, partitions=waiting, of=self._standings.partitions)
        now = self._now()
        waited = now - max(self._rounds.opened.values(), default=-math.inf)
        self._next_look = now + pause_s(waited, LEAST_POLL_S, POLL_S)
        closed = self._rounds.closed(now)
        if closed is not None:
            lineages = self._standings.lineages(closed)
            self._work = gathering = Gathering(
                self._broker, self._provenance, self._new_model, closed, lineages, self._local.model, self._now
            )
            self._gather(gathering)

    def _gather(self, gathering: Gathering) -> None:
        try:
            models = gathering.read_on(self._now() + _ITERATION_S)
        except DisplacedError as error:
            entry, number = error.entry, gathering.closed.round
            _log.warning("contribution_displaced", round=number, partition=entry.partition, error=str(error))
            self._rounds.displaced(number, entry)
            gathering.close()
            self._work = None
            return
        if models is None:
            return
        assert self._log.history is not None
        assert self._provenance.merging is not None
        gathering.close()
        self._work = merging = _PlannedMerge(
            gathering.closed,
            models,
            self._provenance.merging.parents,
            self._log.history,
            self._threads,
        )

        def done(result: object) -> None:
            if self._work is merging:
                assert isinstance(result, tuple)
                model, manifest = result
                self._work = _MadeMerge(model, manifest, gathering.began, gathering.bytes)
                if any(entry.written for entry in manifest.roster):
                    self.encode()  # other workers wait for the commit

        self._run(merging.make, done)

    def encode(self) -> None:
        """Have a thread encode the messages of a merge that is made; call it when nothing waits for the threads."""
        made = self._work
        if not isinstance(made, _MadeMerge) or made is self._encoding or made.messages:
            return
        self._encoding = made

        def done(messages: object) -> None:
            if self._work is made:
                assert isinstance(messages, list)
                self._work = made._replace(messages=messages)

        self._run(partial(made.encode, self._provenance.group), done)


class _PlannedMerge(NamedTuple):
    """Holds what a thread needs to make a merge."""

    closed: ClosedRound
    models: Sequence[ReadableModel]
    parents: Parents
    history: MergeHistory
    threads: int

    def make(self) -> tuple[Mergeable, MergeManifest]:
        """Merge the models; return the merged one, and what is recorded of the merge."""
        # The partitions that wait for the merge learn nothing meanwhile, so it may use all threads.
        with ThreadPoolExecutor(self.threads, "merging") as pool:
            model, counts = merge(self.models, parents=self.parents, run=pool.map, parts=self.threads)
        number, partitions, roster, excluded = self.closed
        manifest = MergeManifest(number, partitions, roster, excluded, model.digest(), counts._asdict(), self.history)
        return model, manifest
