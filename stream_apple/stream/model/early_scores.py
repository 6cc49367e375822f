"""Scores of examples whose labels come later: the published score is judged, and learned from, when the label comes.

An example without a label is scored and published. When a later record of the same id has a label, that early score is
judged: its loss is the *loss when asked*. The labelled record is scored once more, just before it is learned; this
gives the *loss when learned*, the progressive loss, which the delay does not change. A mixture learns from the early
scores which predictor to trust.

The newest ids are remembered, up to a bound, by their hash; if an id is asked for again, its newest score counts. If
more labels come for forgotten ids than for remembered ones, only one id of two is remembered, then one of four, and so
on up to MOST_STRIDE, chosen by the hash, so that the judged ones are a fair sample. A mixture then learns from these
only: examples whose labels come soon may differ from the others. All of this is part of a partition's state, as later
scores depend on it.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.named_arrays import take_over_arrays
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.loss_functions import write_losses
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.progress.progressive_loss import progress_of
from stream_apple.learners.scores import (
    EARLY,
    EARLY_EXPANDED,
    EARLY_LEARNED,
    EARLY_LINEAR,
    EARLY_PUBLISHED,
    EARLY_STRIDE,
    NO_EARLY,
    Scores,
)
from stream_apple.records.message.decode import Decoded

_PREFIX = "early_"
_FORGOTTEN = f"{_PREFIX}forgotten"
_STATE = (f"{_PREFIX}keys", f"{_PREFIX}scores", f"{_PREFIX}sampling")
_ABSENT: NDArray[np.generic] = np.zeros(0)
# Places in `_sampling`: one id of how many is remembered; and since that last changed, how many labels have found their
# score, how many have not, and how many scores were forgotten.
_STRIDE, _FOUND, _MISSED, _EVICTED = range(4)

MOST_STRIDE = 64
"""At the least one id of so many is remembered."""
_ENOUGH = 100  # labels after which it is judged whether most come too late
_IN_UNITS = [number for number in range(EARLY) if number not in {EARLY_PUBLISHED, EARLY_LEARNED, EARLY_STRIDE}]
_NOT_SAMPLED = (np.inf,) * EARLY


class EarlyScores:
    """Keeps the scores that one partition's model has given to examples whose labels it has not seen yet.

    options  the learner's; scores of classes are not remembered
    units    of the learner's labels: kept scores are in these units

    asked      the losses of kept scores whose labels have come since
    forgotten  how many ids were forgotten before a label came
    """

    def __init__(self, options: LearnerOptions, units: LabelUnits) -> None:
        self.asked = progress_of(options)
        self.forgotten = 0
        self._units = units
        self._loss = options.objective.number
        self._mixed = options.mixed
        self._most = 0 if options.classes else options.pending_labels
        self._pending: dict[int, tuple[float, ...]] = {}  # the oldest first; EARLY numbers each
        self._sampling = np.array([1, 0, 0, 0], np.int64)

    @property
    def pending(self) -> int:
        """Return how many scores wait for their label."""
        return len(self._pending)

    @property
    def judged(self) -> int:
        """Return how many scores have been judged."""
        return int(self.asked.examples[0])

    def wanted(self, labels: NDArray[np.float64]) -> bool:
        """Whether rows with these labels, NaN for none, may need a score kept, or may belong to a kept one."""
        sampled = self._sampling.item(_STRIDE) > 1
        return self._most > 0 and (bool(self._pending) or sampled or bool(np.isnan(labels).any()))

    def portions(
        self, decoded: Decoded, start: int, stop: int, scores: Scores
    ) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
        """Yield (first, last, early) for consecutive rows [first, last), which together are [start, stop).

        The caller has `Learner.learn` learn each portion, and write to `scores`, before it takes the next. `early` is
        float32[rows of the batch, EARLY], the early scores of its rows, NaN where there is none; or `NO_EARLY`. A
        labelled row is never in the portion in which the row of its id without a label is scored. While units of labels
        are not final, a portion ends with each judged row, so that no loss depends on how the records were cut.
        """
        labels = decoded.batch.labels
        if not self.wanted(labels[start:stop]):
            yield start, stop, NO_EARLY
            return
        first = start
        judged: dict[int, tuple[float, ...]] = {}  # row -> its early score
        asked: dict[int, int] = {}  # key -> row without a label, of this portion

        def portion(end: int) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
            nonlocal first
            yield first, end, self._rows(judged, len(labels))
            self._settle(decoded, asked, judged, scores)
            first = end
            judged.clear()
            asked.clear()

        for row, key in self._keys(decoded, start, stop).items():
            stride = self._sampling.item(_STRIDE)
            if key % stride:
                if not np.isnan(labels[row]):
                    judged[row] = _NOT_SAMPLED
                continue
            if np.isnan(labels[row]):
                self._pending.pop(key, None)
                self._pending[key] = ()  # its score comes when the portion has been learned
                asked[key] = row
                self._forget()
                continue
            if key in asked and key in self._pending:
                yield from portion(row)
            waiting = bool(self._pending)
            known = self._pending.pop(key, None)
            if waiting:
                self._sample(found=known is not None)
            if known is not None:
                judged[row] = (*known[:EARLY_STRIDE], float(stride))
                if not self._units.fixed:  # each label may change them: this score is judged in those of its own label
                    yield from portion(row + 1)
        if first < stop:
            yield from portion(stop)

    def change_units(self, before: tuple[float, float]) -> None:
        """Convert the kept scores from units of labels with the (centre, width) `before` to the learner's units."""
        if before == self._units.scale:
            return
        (old_centre, old_width), (centre, width) = before, self._units.scale
        for key, kept in self._pending.items():
            scores = np.array(kept)
            scores[_IN_UNITS] = (old_centre - centre + old_width * scores[_IN_UNITS]) / width
            self._pending[key] = tuple(scores.astype(np.float32).tolist())  # snapshots have float32, too

    def end_epoch(self) -> None:
        """Begin the sums of a new epoch, as the learner does; if few ids wait, double the share that is remembered."""
        self.asked.end_epoch()
        stride = self._sampling.item(_STRIDE)
        if stride > 1 and len(self._pending) < self._most // 4:
            self._sampling[:] = stride // 2, 0, 0, 0

    @property
    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return by name, as read-only copies, what later scores depend on."""
        keys = np.fromiter(self._pending, np.uint64, len(self._pending))
        scores = np.array(list(self._pending.values()), np.float32).reshape(-1)
        arrays = (keys, scores, self._sampling.copy())
        for array in arrays:
            array.flags.writeable = False  # it is a copy: writing to it would change nothing
        return dict(zip(_STATE, arrays, strict=True))

    @property
    def observed(self) -> dict[str, NDArray[np.generic]]:
        """Return by name, in memory of its own, what is counted for display."""
        counted = {name: array.copy() for name, array in self._counted.items()}
        return counted | {_FORGOTTEN: np.array([self.forgotten])}

    @property
    def _counted(self) -> dict[str, NDArray[np.generic]]:
        """Return the counts of `asked` by name: the arrays themselves."""
        return {f"{_PREFIX}{name}": array for name, array in (self.asked.arrays() | self.asked.observed()).items()}

    def restore(self, sums: dict[str, NDArray[np.generic]]) -> None:
        """Remove from `sums` the arrays that `state` returned, and take them over; ValueError for others."""
        given = [sums.pop(name, _ABSENT) for name in _STATE]
        sizes = [len(array) for array in given]
        if sizes[0] > self._most or sizes[1:] != [sizes[0] * EARLY, len(self._sampling)]:
            expected = f"at most {self._most} ids with {EARLY} numbers each, and {len(self._sampling)} of the sampling"
            raise ValueError(f"expected {expected}, found arrays of {', '.join(map(str, sizes))}")
        keys, scores, sampling = given
        rows = scores.reshape(len(keys), EARLY).tolist()
        self._pending = {key: tuple(row) for key, row in zip(keys.tolist(), rows, strict=True)}
        self._sampling[:] = sampling.astype(np.int64)

    def restore_observed(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over what `observed` returned; ValueError for other names, shapes, or dtypes."""
        forgotten = np.array([0])
        take_over_arrays(self._counted | {_FORGOTTEN: forgotten}, observed)
        self.forgotten = int(forgotten[0])

    def _keys(self, decoded: Decoded, start: int, stop: int) -> dict[int, int]:
        """Return row -> hash of its id, for rows that have one, in ascending order of rows."""
        named = decoded.ids[start:stop, 1] > decoded.ids[start:stop, 0]
        rows = start + np.flatnonzero(named)
        bounds = decoded.ids[rows].tolist()
        buffer = decoded.buffer
        hashed = (xxhash.xxh3_64_intdigest(buffer[first:last].data) for first, last in bounds)
        return dict(zip(rows.tolist(), hashed, strict=True))

    def _rows(self, early: Mapping[int, tuple[float, ...]], size: int) -> NDArray[np.float32]:
        """Return float32[size, EARLY] with these rows, NaN elsewhere; NO_EARLY if a mixture has nothing to learn."""
        if not self._mixed or not early:
            return NO_EARLY
        found = np.full((size, EARLY), np.nan, np.float32)
        found[list(early)] = list(early.values())
        return found

    def _early(self, scores: Scores, row: int) -> tuple[float, ...]:
        """Return the EARLY numbers to keep of a row: without a mixture only those that are judged, the others NaN."""
        if len(scores.early):
            kept = scores.early[row].copy()
            kept[EARLY_PUBLISHED] = scores.predictions[row]  # in the unit of the label, as it was published
            return tuple(kept.tolist())
        found = np.full(EARLY, np.nan, np.float32)
        found[[EARLY_LINEAR, EARLY_EXPANDED, EARLY_PUBLISHED]] = (
            scores.linear[row],
            scores.expanded[row],
            scores.predictions[row],
        )
        return tuple(found.tolist())

    def _forget(self) -> None:
        """Forget the oldest scores, as long as there are too many."""
        while len(self._pending) > self._most:
            del self._pending[next(iter(self._pending))]
            self.forgotten += 1
            self._sampling[_EVICTED] += 1

    def _sample(self, *, found: bool) -> None:
        """Count a label whose id is in the sample; halve the sample if most come too late."""
        sampling = self._sampling
        sampling[_FOUND if found else _MISSED] += 1
        stride, seen, missed, evicted = sampling.tolist()
        if evicted >= self._most and missed > seen and missed + seen >= _ENOUGH and stride < MOST_STRIDE:
            sampling[:] = 2 * stride, 0, 0, 0
            self._pending = {key: row for key, row in self._pending.items() if key % (2 * stride) == 0}

    def _settle(
        self, decoded: Decoded, asked: Mapping[int, int], judged: Mapping[int, tuple[float, ...]], scores: Scores
    ) -> None:
        """Keep the scores of a portion that has been learned, and judge the early scores of its labelled rows."""
        for key, row in asked.items():
            if key in self._pending:
                self._pending[key] = self._early(scores, row)
        known = {row: early for row, early in judged.items() if early is not _NOT_SAMPLED}
        if known:
            self._judge(decoded, np.array(list(known)), np.array(list(known.values())))

    def _judge(self, decoded: Decoded, rows: NDArray[np.int64], early: NDArray[np.float64]) -> None:
        """Add the losses of scores float64[n, EARLY] that were given before the labels of these rows came."""
        batch = decoded.batch.select(rows)
        scores = Scores.empty(len(rows))
        scores.linear[:], scores.expanded[:] = early[:, EARLY_LINEAR], early[:, EARLY_EXPANDED]
        self._units.from_units(batch, scores, 0, len(rows), self._units.scale)
        scores.predictions[:] = early[:, EARLY_PUBLISHED]
        write_losses(self._loss, scores.predictions, batch.labels, scores.losses)
        self.asked.add(batch, scores, 0, len(rows))
