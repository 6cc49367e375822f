"""Merging the contributions of a group's partitions: the work of the worker that owns partition 0.

It does a little in each iteration of the loop. It looks at the notes of all partitions (`committed_standings.py`),
which tell which rounds are open and when one is closed (`open_rounds.py`); it reads the contributions to a closed round
(`gathering.py`), except those of its own worker; and it has a learning thread merge them. The loop then sends and
commits the merged model in one transaction with the offset of partition 0, whose note says where the model is. So a
worker that has lost partition 0 can't commit a merge, and the next owner knows all that has been merged.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import structlog

from stream_apple.learners.merging_port import Mergeable, Parents, ReadableModel
from stream_apple.learners.port import Learner
from stream_apple.learners.systems import merging_of
from stream_apple.stream.merging.committed_standings import CommittedStandings
from stream_apple.stream.merging.followers import LocalPartitions
from stream_apple.stream.merging.gathering import DisplacedError, Gathering
from stream_apple.stream.merging.merge_log import MergedModel, MergeLog
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.merging.open_rounds import ClosedRound, OpenRounds
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

    log     of the merges, which the followers of the same worker read, too
    run     has a learning thread make a call, and calls the second function with its result on the loop's thread
    newest  where the newest merged model is, by the committed note of partition 0; later merges change it
    local   the partitions of the same worker

    next_look  when the next look at the notes is due, if it is not busy; in seconds of the clock
    """

    def __init__(
        self,
        context: MergingContext,
        log: MergeLog,
        run: Callable[[Callable[[], Any], Callable[[Any], None]], None],
        newest: MergedPointer | None,
        local: LocalPartitions,
    ) -> None:
        assert context.provenance.merging is not None
        self.newest = newest
        self.next_look = context.now()
        self._context = context
        self._settings = context.provenance.merging
        self._run = run
        self._local = local
        self._now = context.now
        self._standings = CommittedStandings(context, local)
        self._log = log
        self._rounds = OpenRounds(self._settings.patience_s)
        self._work: Gathering | ClosedRound | _MadeMerge | None = None  # a closed round: a thread merges it
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
        self._log.follow(self.newest)
        if not self._log.knows_all:
            self._log.read_on()
        elif isinstance(self._work, Gathering):
            self._gather(self._work)
        elif self._work is None and self._now() >= self.next_look:
            self._look()

    @property
    def busy(self) -> bool:
        """Whether the next step has something to do, and need not wait for others."""
        return not self._log.knows_all or self._work is not None

    def borrows(self, partition: int) -> bool:
        """Whether a thread reads this partition's model, so that the partition must not go on yet."""
        return isinstance(self._work, ClosedRound) and any(each.partition == partition for each in self._work.roster)

    def look_soon(self) -> None:
        """Look at the notes of all partitions in the next step, as one of them has just changed."""
        self.next_look = self._now()

    def committed(self, pointer: MergedPointer) -> None:
        """Note that the merge that was ready is committed, with its pointer beside partition 0."""
        made = self._work
        assert isinstance(made, _MadeMerge)
        self._work = self._encoding = None
        self.newest = pointer
        self._log.hand_over(MergedModel(pointer, made.manifest, made.model))
        manifest, seconds = made.manifest, self._now() - made.began
        written = sum(len(value) for _, value in made.messages)
        self._context.recorder.merged(manifest, seconds, made.read_bytes, written)
        _log.info(
            "round_merged",
            round=manifest.round,
            roster=list(manifest.members),
            excluded={str(number): reason for number, reason in manifest.left_out.items()},
            digest=manifest.digest,
            bytes=written,
            seconds=round(seconds, 3),
            monomials=manifest.counts["kept"],
            dropped=manifest.counts["models_dropped"],
            lost_parents=manifest.lost_parents,
        )

    def close(self) -> None:
        """Drop all work, and close the readers of contributions."""
        if isinstance(self._work, Gathering):
            self._work.close()
        self._work = self._encoding = None

    def _look(self) -> None:
        history = self._log.history
        assert history is not None
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
        self.next_look = now + pause_s(waited, LEAST_POLL_S, POLL_S)
        closed = self._rounds.closed(now)
        if closed is not None:
            lineages = self._standings.lineages(closed)
            self._work = gathering = Gathering(self._context, closed, lineages, self._local.model)
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
        gathering.close()
        self._work = closed = gathering.closed

        def done(merged: tuple[Mergeable, MergeManifest]) -> None:
            if self._work is closed:
                self._work = made = _MadeMerge(*merged, gathering.began, gathering.bytes)
                if any(entry.written for entry in made.manifest.roster):
                    self.encode()  # other workers wait for the commit

        self._run(
            partial(_merged, closed, models, self._settings.parents, self._log.history, self._context.threads), done
        )

    def encode(self) -> None:
        """Have a thread encode the messages of a merge that is made; call it when nothing waits for the threads."""
        made = self._work
        if not isinstance(made, _MadeMerge) or made is self._encoding or made.messages:
            return
        self._encoding = made

        def done(messages: list[Message]) -> None:
            if self._work is made:
                self._work = made._replace(messages=messages)

        self._run(partial(made.encode, self._context.provenance.group), done)


def _merged(
    closed: ClosedRound,
    models: Sequence[Learner | ReadableModel],
    parents: Parents,
    history: MergeHistory,
    threads: int,
) -> tuple[Mergeable, MergeManifest]:
    """Merge the models of a closed round; return the merged one, and what is recorded of the merge."""
    # The partitions that wait for the merge learn nothing meanwhile, so it may use all threads.
    with ThreadPoolExecutor(threads, "merging") as pool:
        model, counts = merging_of(models[0].options).merge(models, parents=parents, run=pool.map, parts=threads)
    number, partitions, roster, excluded = closed
    return model, MergeManifest(number, partitions, roster, excluded, model.digest(), counts._asdict(), history)
