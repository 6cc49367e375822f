"""Merging the contributions of a group's partitions: the work of the worker that owns partition 0.

It does a little in each iteration of the loop. It looks at the notes of all partitions (`committed_standings.py`),
which show which rounds are open and when one is closed (`open_rounds.py`); it reads the contributions to a closed round
(`gathering.py`), those of its own worker as well; and it has a learning thread merge them. The merged model is
committed in one transaction with the offset of partition 0, whose note says where the model is. So a worker that has
lost partition 0 can't commit a merge, and the next owner knows all that has been merged.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import structlog

from stream_apple.learners.merging_port import ReadableModel
from stream_apple.learners.systems import merging_of
from stream_apple.stream.merging.committed_standings import CommittedStandings
from stream_apple.stream.merging.gathering import DisplacedError, Gathering
from stream_apple.stream.merging.merge_log import MergeLog
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


class LeaderState(StrEnum):
    """Names what the leader does for the round that is to be merged next."""

    LOOKING = "looking"  # at the notes of all partitions, until a round is closed
    GATHERING = "gathering"  # it reads the contributions
    MERGING = "merging"  # a thread merges them, and makes messages of the merged model
    SENDING = "sending"  # the messages are in the open transaction, and on their way to the broker
    SENT = "sent"  # the broker has them: they are to be committed with the note that says where they are


TRANSITIONS: dict[LeaderState, frozenset[LeaderState]] = {
    LeaderState.LOOKING: frozenset({LeaderState.GATHERING}),
    LeaderState.GATHERING: frozenset({LeaderState.MERGING, LeaderState.LOOKING}),
    LeaderState.MERGING: frozenset({LeaderState.SENDING}),
    LeaderState.SENDING: frozenset({LeaderState.SENT}),
    LeaderState.SENT: frozenset({LeaderState.LOOKING}),
}
"""The states that may follow each. A round whose contribution can't be read is looked at again, without that one."""


class _MadeMerge(NamedTuple):
    """Holds a merge that is made: what is recorded of it, and the messages of the merged model."""

    manifest: MergeManifest
    messages: Sequence[Message]


class Leader:
    """Merges the contributions of partitions, while partition 0 is this worker's and live.

    log     of the merges, which the followers of the same worker read, too
    run     has a learning thread make a call, and calls the second function with its result on the loop's thread
    begin   opens a transaction unless one is open
    newest  where the newest merged model is, by the committed note of partition 0; later merges change it

    sent       where the merged model is that the open transaction holds, if the broker has all of it; else None
    next_look  when the next look at the notes is due, if it is not busy; in seconds of the clock
    """

    def __init__(
        self,
        context: MergingContext,
        log: MergeLog,
        run: Callable[[Callable[[], Any], Callable[[Any], None]], None],
        begin: Callable[[], None],
        newest: MergedPointer | None,
    ) -> None:
        assert context.provenance.merging is not None
        self.state = LeaderState.LOOKING
        self.newest = newest
        self.sent: MergedPointer | None = None
        self.next_look = context.now()
        self._context = context
        self._settings = context.provenance.merging
        self._run = run
        self._begin = begin
        self._now = context.now
        self._standings = CommittedStandings(context)
        self._log = log
        self._rounds = OpenRounds(self._settings.patience_s)
        self._gathering: Gathering | None = None
        self._made: _MadeMerge | None = None
        self._offsets: list[int] = []  # of the messages that the broker has

    def step(self) -> None:
        """Do a little of the leader's work; SnapshotError if the earlier merges can't be read."""
        self._log.follow(self.newest)
        if not self._log.knows_all:
            self._log.read_on()
        elif self.state is LeaderState.LOOKING and self._now() >= self.next_look:
            self._look()
        elif self.state is LeaderState.GATHERING:
            self._gather()
        elif self.state is LeaderState.SENDING:
            self._take_offsets()

    @property
    def busy(self) -> bool:
        """Whether the next step has something to do, and need not wait for others."""
        return not self._log.knows_all or self.state is not LeaderState.LOOKING

    def look_soon(self) -> None:
        """Look at the notes of all partitions in the next step, as one of them has just changed."""
        self.next_look = self._now()

    def finish(self) -> None:
        """Wait until the broker has the whole of a merged model that is being sent."""
        if self.state is LeaderState.SENDING:
            self._context.broker.flush()
            self._take_offsets()

    def committed(self) -> None:
        """Note that the merge that was sent is committed, with its pointer in the note of partition 0."""
        made, gathering = self._made, self._gathering
        assert made is not None
        assert gathering is not None
        self._enter(LeaderState.LOOKING)
        self.newest = self.sent
        self.sent = self._made = self._gathering = None
        manifest, seconds = made.manifest, self._now() - gathering.began
        written = sum(len(value) for _, value in made.messages)
        self._context.recorder.merged(manifest, seconds, gathering.bytes, written)
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
        """Close the readers of contributions; nothing may be done with the leader any more."""
        if self._gathering is not None:
            self._gathering.close()
            self._gathering = None

    def _enter(self, state: LeaderState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"expected a state that may follow {self.state}, found {state}")
        self.state = state

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
            self._enter(LeaderState.GATHERING)
            self._gathering = Gathering(self._context, closed, self._standings.lineages(closed))
            self._gather()

    def _gather(self) -> None:
        """Read contributions for a moment; when all have come, have a thread merge them."""
        gathering, history = self._gathering, self._log.history
        assert gathering is not None
        assert history is not None
        closed = gathering.closed
        try:
            models = gathering.read_on(self._now() + _ITERATION_S)
        except DisplacedError as error:
            _log.warning(
                "contribution_displaced", round=closed.round, partition=error.entry.partition, error=str(error)
            )
            self._rounds.displaced(closed.round, error.entry)
            self.close()
            self._enter(LeaderState.LOOKING)
            return
        if models is None:
            return
        gathering.close()
        self._enter(LeaderState.MERGING)

        def done(made: _MadeMerge) -> None:
            if self._gathering is gathering:  # else the leader was closed meanwhile
                self._send(made)

        self._run(partial(_merged, self._context, closed, models, history), done)

    def _send(self, made: _MadeMerge) -> None:
        self._enter(LeaderState.SENDING)
        self._made = made
        self._offsets = offsets = list[int]()
        self._begin()
        broker, topic = self._context.broker, self._context.provenance.topics.merges
        for key, value in made.messages:
            broker.send(topic, 0, key, value, 0, on_written=offsets.append)

    def _take_offsets(self) -> None:
        """Note where the merged model is, once the broker has all of its messages."""
        made, offsets = self._made, self._offsets
        if made is not None and len(offsets) == len(made.messages):
            self._enter(LeaderState.SENT)
            self.sent = MergedPointer(made.manifest.round, min(offsets), max(offsets))


def _merged(
    context: MergingContext, closed: ClosedRound, models: Sequence[ReadableModel], history: MergeHistory
) -> _MadeMerge:
    """Merge the models of a closed round."""
    provenance, threads = context.provenance, context.threads
    assert provenance.merging is not None
    # The partitions that wait for the merge learn nothing meanwhile, so it may use all threads.
    with ThreadPoolExecutor(threads, "merging") as pool:
        merging = merging_of(models[0].options)
        model, counts = merging.merge(models, parents=provenance.merging.parents, run=pool.map, parts=threads)
    number, partitions, roster, excluded = closed
    manifest = MergeManifest(number, partitions, roster, excluded, model.digest(), counts._asdict(), history)
    values = encode_merge(provenance.group, manifest, model)
    return _MadeMerge(
        manifest, [(merge_key(provenance.group, number, index), value) for index, value in enumerate(values)]
    )
