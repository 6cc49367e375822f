"""Scores of examples whose labels come later: what could be used is judged when the label is there.

An example without a label is scored and published. When a record of the same id has a label, the score that was
published then is judged: its loss is the *loss when asked*. The labelled record is scored once more, just before it is
learned; that is the *loss when learned*, the progressive loss, which the delay does not touch.

Ids are remembered by their hash, the newest so many; of an id that is asked for again, the newest score counts. All of
it is kept with snapshots, so that a model that recovers goes on as if nothing had happened; no score depends on it.
"""

from collections.abc import Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.codec.decode import Decoded
from stream_apple.core.learner.class_progress import progress_of
from stream_apple.core.learner.kernels.losses import loss_number, write_losses
from stream_apple.core.learner.learner import Scores
from stream_apple.core.learner.options import Options

_PREFIX = "early_"
_PREDICTORS = 3  # published, linear, apple: the columns of a remembered score
_Early = tuple[float, float, float]


class EarlyScores:
    """What one partition's model has said about examples whose labels it has not seen yet.

    options  the learner's; scores of classes are not remembered
    most     so many ids at a time

    asked      the losses of scores whose labels have come since
    forgotten  ids that had to give way before a label came
    """

    def __init__(self, options: Options, most: int) -> None:
        self.asked = progress_of(options)
        self.forgotten = 0
        self._loss = loss_number(options.loss)
        self._most = 0 if options.classes else most
        self._pending: dict[int, _Early] = {}  # the oldest first

    @property
    def pending(self) -> int:
        """Return how many scores wait for their label."""
        return len(self._pending)

    @property
    def judged(self) -> int:
        """Return how many scores have been judged."""
        return int(self.asked.examples[0])

    def take(self, decoded: Decoded, start: int, stop: int, scores: Scores) -> None:
        """Remember the scores of rows [start, stop) that have no label, and judge those whose label is among them."""
        labels = decoded.batch.labels
        unlabelled = np.isnan(labels[start:stop])
        if not self._most or not (self._pending or unlabelled.any()):
            return
        named = decoded.ids[start:stop, 1] > decoded.ids[start:stop, 0]
        judged: list[int] = []
        early: list[_Early] = []
        columns = (scores.predictions, scores.linear, scores.apple)
        for row in (start + np.flatnonzero(named)).tolist():
            first, last = decoded.ids[row].tolist()
            key = xxhash.xxh3_64_intdigest(decoded.buffer[first:last].data)
            known = self._pending.pop(key, None)
            if unlabelled[row - start]:
                published, linear, apple = columns
                self._pending[key] = (float(published[row]), float(linear[row]), float(apple[row]))
                self._forget()
            elif known is not None:
                judged.append(row)
                early.append(known)
        if judged:
            self._judge(decoded, np.array(judged), np.array(early))

    def end_epoch(self) -> None:
        """Begin new sums of the epoch, as the learner does."""
        self.asked.end_epoch()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state by name, in memory of its own."""
        counted = {**self.asked.arrays(), **self.asked.observed()}
        found = {f"{_PREFIX}{name}": array.copy() for name, array in counted.items()}
        found[f"{_PREFIX}keys"] = np.fromiter(self._pending, np.uint64, len(self._pending))
        found[f"{_PREFIX}scores"] = np.array(list(self._pending.values()), np.float64).reshape(-1)
        found[f"{_PREFIX}forgotten"] = np.array([self.forgotten])
        return found

    def restore(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over what a snapshot has of it, if it has anything; ValueError for arrays of other sizes."""
        counted = {**self.asked.arrays(), **self.asked.observed()}
        if not {f"{_PREFIX}{name}" for name in (*counted, "keys", "scores", "forgotten")} <= observed.keys():
            return
        for name, own in counted.items():
            found = observed[f"{_PREFIX}{name}"]
            if found.shape != own.shape or found.dtype != own.dtype:
                raise ValueError(f"expected {own.dtype}{own.shape} as {name}, found {found.dtype}{found.shape}")
            own[...] = found
        keys, scores = observed[f"{_PREFIX}keys"], observed[f"{_PREFIX}scores"]
        rows = scores.reshape(len(keys), _PREDICTORS).tolist()
        self._pending = {key: tuple(row) for key, row in zip(keys.tolist(), rows, strict=True)}
        self.forgotten = int(observed[f"{_PREFIX}forgotten"][0])
        self._forget()

    def _forget(self) -> None:
        """Let the oldest go that are too many."""
        while len(self._pending) > self._most:
            del self._pending[next(iter(self._pending))]
            self.forgotten += 1

    def _judge(self, decoded: Decoded, rows: NDArray[np.int64], early: NDArray[np.float64]) -> None:
        """Add the losses of scores float64[n, 3] that were given before the labels of these rows came."""
        batch = decoded.batch.select(rows)
        scores = Scores.empty(len(rows))
        scores.predictions[:], scores.linear[:], scores.apple[:] = early.T
        write_losses(self._loss, scores.predictions, batch.labels, scores.losses)
        self.asked.add(batch, scores, 0, len(rows))
