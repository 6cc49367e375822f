"""Searches the newest examples of the topic for names that the view of a model lacks, when a person looks at it.

A worker that was just started has seen no example, and one that has raced through a backlog has sampled few. The names
are in the topic, so they are kept nowhere else, and cost nothing while no one asks. A search is bounded in examples, in
bytes and in its share of a core, however often it is asked for; one that found nothing is not repeated over the same
examples.
"""

import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from typing import NamedTuple, Self

import numpy as np
import structlog

from stream_apple.core.ngrams import add_ngrams
from stream_apple.errors import GapError, StreamAppleError
from stream_apple.learners.systems import ngrams_of
from stream_apple.monitoring.inspection import view_model
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.log.contents import contents_of
from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import AbortableError
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.snapshots.store import Logs

NEWEST = 50_000
"""How many examples are searched."""
WAIT_S = 2.0
"""Seconds that a viewer waits for names; then it gets the known ones, and further ones when it asks again."""
_PORTION = 200  # examples of a fetch
_MOST_BYTES = 64 << 20  # of their values
_PATIENCE_S = 10.0  # without a further example
_SHARE = 0.05  # of a core
_LEAST_REST_S = 1.0
_MOST_REST_S = 30.0  # a search costs about a second; the first one may have compiled kernels, once for all
_CLOSE_S = 1.0

_log = structlog.get_logger()


class Wanted(NamedTuple):
    """Keys of base features without names, and the partition and the offset before which examples may have them."""

    partition: int
    before: int
    keys: frozenset[int]


def find_names(
    logs: Logs, topic: str, wanted: Wanted, decoder: Decoder, names: Names, is_over: Callable[[], bool] = lambda: False
) -> frozenset[int]:
    """Add the names of the wanted features that the newest examples have; return the keys of the others.

    BrokerError if the examples do not come, GapError if retention takes them away meanwhile.
    """
    left = set(wanted.keys)
    start = max(logs.log_range(topic, wanted.partition).low, wanted.before - NEWEST)
    if start >= wanted.before or not wanted.keys:
        return wanted.keys
    read, offsets = 0, range(start, wanted.before)
    with closing(LogScan(logs, topic, wanted.partition, offsets, _PORTION, patience_s=_PATIENCE_S)) as scan:
        for records in scan.batches():
            read += take_names(contents_of(records, framed=decoder.framed), decoder, names, left)
            if not left or read > _MOST_BYTES or is_over():
                break
    return frozenset(left)


def newest_names(logs: Logs, model: PartitionModel, before: int, decoder: Decoder, top: int) -> Names:
    """Return the names that the newest examples before an offset have for the view of a model; it raises BrokerError.

    top  of each kind, how many things of the view have their names looked for
    """
    names = Names(ngrams=ngrams_of(model.learner.options))
    view_model(model, names, top)  # which tells `names` what is missing
    # Retention may delete records that are being read; a model is useful without names, too.
    with suppress(GapError):
        find_names(logs, model.topic, Wanted(model.partition, before, names.missing), decoder, names)
    return names


def take_names(values: list[bytes | None], decoder: Decoder, names: Names, left: set[int]) -> int:
    """Move the features that these examples have from `left` to `names`; return the size of the examples in bytes.

    All examples are decoded at once, and names are read only from the few that have one of the features.
    """
    decoded = decoder.decode(values)
    batch = add_ngrams(decoded.batch, names.ngrams)
    wanted = np.sort(np.fromiter(left, np.uint64, len(left)))
    places = np.minimum(np.searchsorted(wanted, batch.keys), len(wanted) - 1)
    hits = np.flatnonzero(wanted[places] == batch.keys)
    rows = np.searchsorted(batch.indptr, hits, "right") - 1
    for key, row in zip(batch.keys[hits].tolist(), decoded.rows[rows].tolist(), strict=True):
        if key in left:
            found = dict(names_in(decoder.message(values[row]), names.ngrams))
            names.add(found.items())
            left.difference_update(found)
            left.discard(key)  # even if it has no name here: another example would not have more
    return int(decoded.buffer.size)


class NameSearch:
    """Looks for names on a thread of its own, one search at a time; a context.

    search  looks for them, and returns the keys that it has not found; its second argument tells when to give up
    """

    def __init__(
        self,
        search: Callable[[Wanted, Callable[[], bool]], Collection[int]],
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._search = search
        self._now = now
        self._clock = clock
        self._changed = threading.Condition()
        self._wanted: Wanted | None = None
        self._nameless: dict[int, Wanted] = {}  # partition -> what its last search has not found
        self._due = now()
        self._ended = 0  # searches
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="names", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)

    def look(self, wanted: Wanted) -> bool:
        """Have these looked for, unless that is vain or not due; wait WAIT_S; return whether a search has ended."""
        with self._changed:
            if self._wanted is None:
                if self._now() < self._due or self._is_vain(wanted):
                    return False
                self._wanted = wanted
                self._changed.notify_all()
            ended = self._ended
            return self._changed.wait_for(lambda: self._ended > ended or self._stopping, WAIT_S)

    def _is_vain(self, wanted: Wanted) -> bool:
        """Whether none of these was found in the last search, and there are few examples since."""
        last = self._nameless.get(wanted.partition)
        return last is not None and wanted.keys <= last.keys and wanted.before < last.before + NEWEST // 2

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._stopping)
                wanted = self._wanted
                if wanted is None or self._stopping:
                    return
            before, left = self._clock(), wanted.keys
            try:
                left = frozenset(self._search(wanted, lambda: self._stopping))
            except (StreamAppleError, AbortableError) as error:
                # The view is useful without names: learning goes on, and a later view searches again.
                _log.warning("names_not_found", partition=wanted.partition, error=str(error))
                left = frozenset()
            finally:
                with self._changed:
                    self._wanted = None
                    self._nameless[wanted.partition] = wanted._replace(keys=left)
                    rest_s = (self._clock() - before) / _SHARE
                    self._due = self._now() + min(max(_LEAST_REST_S, rest_s), _MOST_REST_S)
                    self._ended += 1
                    self._changed.notify_all()
