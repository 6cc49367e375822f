"""Instances: examples that are scored on request and not learned, but decoded as the topic's records are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import write_probabilities
from stream_apple.learners.port import RowInPlace
from stream_apple.learners.scores import Scores
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel

_ROOM = 128  # features for which a row has room at first


class InstanceFault(NamedTuple):
    """Says why an instance can't be scored.

    instance  its place in the request, from 0
    reason    a code, as in the headers of a dead letter
    """

    instance: int
    reason: str
    message: str


class BadInstancesError(Exception):
    """Some of the instances can't be scored; `faults` names each of them, in the order of the request."""

    def __init__(self, faults: Sequence[InstanceFault]) -> None:
        super().__init__("; ".join(f"instance {fault.instance}: {fault.message}" for fault in faults))
        self.faults = faults


class InstanceReader:
    """Reads instances as models of these settings read the records of their topic; several threads may use one.

    classes  how many classes labels may be of; 0 if labels are no classes
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.classes = settings.limits.classes
        self._decoder = settings.decoder()
        self._limits = settings.limits

    def warm_up(self) -> None:
        """Compile or load the kernels that reading needs."""
        self._decoder.warm_up()

    def read(self, values: Sequence[bytes]) -> Batch:
        """Return a batch with a row for each instance, which is valid until the thread's next call.

        values  what would be the values of the records

        BadInstancesError if any of them can't be used. The label of an instance is checked, and has no further effect.
        """
        decoded = self._decoder.decode(values)
        if len(decoded.rows) < len(values):
            faults = []
            for index, reason in enumerate(map(Reason, decoded.reasons.tolist())):
                if reason != Reason.OK:
                    message = decoded.faults.get(index)
                    if message is None:
                        message = explain(reason, int(decoded.places[index]), values[index], self._limits)
                    faults.append(InstanceFault(index, reason.code, message))
            raise BadInstancesError(faults)
        return decoded.batch

    def message(self, value: bytes) -> bytes | None:
        """Return the instance as a message in the product's own format, see `Decoder.message`."""
        return self._decoder.message(value)


class InstanceScore(NamedTuple):
    """Holds what a model says of an instance.

    prediction     as a worker publishes it: the expected label, the log-odds of label 1, or the number of a class
    probability    of label 1, or of the class that is the prediction; None with squared loss
    probabilities  of all classes, in the order of their labels; empty where there are none
    """

    prediction: float
    probability: float | None
    probabilities: Sequence[float] = ()


class InstanceScorer:
    """Scores by one model as `score` does, but a single instance at less cost: it keeps the arguments of the kernels.

    Call it only while no other thread uses the model.
    """

    def __init__(self, model: PartitionModel) -> None:
        self.model = model
        self._row: RowInPlace | None = None

    def score(self, batch: Batch) -> list[InstanceScore]:
        """Return what the model says of each row; it raises what `score` raises."""
        row = self._place(len(batch.keys)) if len(batch.labels) == 1 else None
        if row is None:
            return score(self.model, batch)
        size = len(batch.keys)
        row.keys[:size], row.values[:size], row.indptr[1] = batch.keys, batch.values, size
        row.score()
        return _told(self.model, row.scores)

    def _place(self, features: int) -> RowInPlace | None:
        """Return a row with room for so many features; None if the model can score only batches."""
        learner, row = self.model.learner, self._row
        if row is None or row.generation != learner.generation or row.room < features:
            self._row = row = learner.single_row(max(_ROOM, 2 * features))
        return row


def score(model: PartitionModel, batch: Batch) -> list[InstanceScore]:
    """Return what the model says of each row; the model does not change by a single bit.

    ModelError if a score is not finite.
    """
    learner, size = model.learner, len(batch.labels)
    classes = learner.options.classes
    scores = Scores.empty(size, classes)
    learner.score_rows(batch, 0, size, scores)
    return _told(model, scores)


def _told(model: PartitionModel, scores: Scores) -> list[InstanceScore]:
    options, predictions = model.learner.options, scores.predictions.tolist()
    if options.objective.real_valued:
        return [InstanceScore(prediction, None) for prediction in predictions]
    if options.classes:
        of_all = scores.all_probabilities.tolist()
        return list(map(InstanceScore, predictions, scores.probabilities.tolist(), of_all))
    probabilities = np.empty(len(predictions))
    write_probabilities(scores.predictions, probabilities)
    return list(map(InstanceScore, predictions, probabilities.tolist()))
