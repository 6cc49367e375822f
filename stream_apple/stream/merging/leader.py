"""Merging what the partitions of a group have contributed: the work of whoever owns partition 0.

In each iteration of the loop a little: look at what is noted of all partitions (`committed_standings.py`), which tells
which rounds are open, and when one is closed (`open_rounds.py`); read the contributions to a closed round
(`gathering.py`), but for those of partitions that this worker holds itself; and have a learning thread merge them. The
merged model is then sent and committed by the loop, in one transaction with the offset of partition 0, beside which it
is noted where the model is: so whoever is not the owner any more can't commit, and the next owner knows all that has
been merged.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

import structlog

from stream_apple.core.learner.merging.merge import Parents, merge
from stream_apple.core.learner.merging.mergeable import Mergeable
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
"""Between two looks at what is noted of all partitions: so long a round may go unseen while partitions wait."""
LEAST_POLL_S = 0.02
"""The same when a round has just been opened."""
_ITERATION_S = 0.05  # for an iteration of the loop: partitions wait meanwhile

_log = structlog.get_logger()

Message = tuple[bytes, bytes]
"""Key and value."""


class MergeSummary(NamedTuple):
    """Tells those who count what a merge was.

    roster        partitions in it
    excluded      partition that is not -> why, an `ExclusionReason`
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
        """The leader has merged, and it is committed."""
        ...


def pause_s(waited: float, least: float, most: float) -> float:
    """Seconds between two looks at what others do, of which one may be waited for since `waited` seconds.

    A tenth of that: so looking adds little to any wait, and a long wait costs the broker little.
    """
    return min(max(waited / 10, least), most)


class _MadeMerge(NamedTuple):
    """Holds a merge that is made, and its messages when they have been made, too."""

    model: Mergeable
    manifest: MergeManifest
    began: float
    read_bytes: int
    messages: Sequence[Message] = ()

    def encode(self, group: str) -> list[Message]:
        """Return the messages."""
        values, number = encode_merge(group, self.manifest, self.model), self.manifest.round
        return [(merge_key(group, number, index), value) for index, value in enumerate(values)]


class Leader:
    """Merges what partitions contribute, while partition 0 is this worker's, and live.

    options    of the models
    new_model  makes a model that has learned nothing
    run        has a learning thread make a call, and tells the second function its result on the loop's thread
    metrics    told of merges
    newest     where the newest merged model is, by the committed note of partition 0
    local      partitions of the same worker
    threads    that merge at once

    newest  the same, by now
    made    a merged model that partitions of this worker may go on with in the transaction that is to hold it
    ready   the messages of that model, when they are there to be sent and committed with partition 0
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
        """Return the messages of a merge that is to be sent and committed; None if there is none yet."""
        return self._work.messages or None if isinstance(self._work, _MadeMerge) else None

    @property
    def made(self) -> MergedModel | None:
        """Return the merged model that is to be committed; None if there is none."""
        work = self._work
        return MergedModel(None, work.manifest, work.model) if isinstance(work, _MadeMerge) else None

    def step(self) -> None:
        """Do a little of what is to be done; SnapshotError if what has been merged can't be known."""
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
        """Return when there is something to be done again, if it is not busy; seconds of the clock."""
        return self._next_look

    def borrows(self, partition: int) -> bool:
        """Whether a thread reads this partition's model: it must not go on yet."""
        return isinstance(self._work, _PlannedMerge) and any(
            each.partition == partition for each in self._work.closed.roster
        )

    def look_soon(self) -> None:
        """Look at what is noted of all partitions in the next step: something has been, just now."""
        self._next_look = self._now()

    def committed(self, pointer: MergedPointer) -> MergedModel:
        """The merge that was ready is committed, and noted beside partition 0; what its readers will find."""
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
        """Lead no more, and close all readers that are open."""
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
        """Have the messages of a merge that is made be made, too; called after what partitions here wait for."""
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
    models: Sequence[Mergeable]
    parents: Parents
    history: MergeHistory
    threads: int

    def make(self) -> tuple[Mergeable, MergeManifest]:
        """Merge the models; return the merged one, and what is recorded of the merge."""
        # Whoever waits for this does nothing else meanwhile.
        with ThreadPoolExecutor(self.threads, "merging") as pool:
            model, counts = merge(self.models, parents=self.parents, run=pool.map, parts=self.threads)
        number, partitions, roster, excluded = self.closed
        manifest = MergeManifest(number, partitions, roster, excluded, model.digest(), counts._asdict(), self.history)
        return model, manifest
