"""From instances to what models say of them, and to the objects of a reply."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.http.serving.questions import Instance
from stream_apple.learners.systems import ngrams_of
from stream_apple.monitoring.explanation import explain_scores, of_highest_score
from stream_apple.monitoring.inspection import plain
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.following.replicas import Replicas
from stream_apple.stream.model.instances import (
    BadInstancesError,
    InstanceFault,
    InstanceReader,
    InstanceScore,
    InstanceScorer,
)
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.walk.moment import Moment

ReplyFacts = dict[str, Any]
PartitionOf = Callable[[bytes, int], int]
"""(key, partitions) -> the partition that producers send a record with this key to."""


class InstanceAnswer(NamedTuple):
    """Holds what is said of one instance, in JSON types."""

    prediction: ReplyFacts
    as_of: ReplyFacts
    explanation: ReplyFacts | None = None


class Answering:
    """Answers requests by the models of `replicas`.

    model         digest of the settings that all of them were made with
    partition_of  how producers choose a partition
    """

    def __init__(self, replicas: Replicas, reader: InstanceReader, model: str, partition_of: PartitionOf) -> None:
        self.replicas = replicas
        self.model = model
        self._reader = reader
        self._partition_of = partition_of
        self._scorers: dict[int, InstanceScorer] = {}

    def predict(self, instances: Sequence[Instance]) -> ReplyFacts:
        """Return the reply to `:predict`.

        BadInstancesError if one of the instances can't be scored, NoModelError where there is no model of a partition
        yet, ModelError if a score is not finite.
        """
        rows, batch = self._read(instances)
        found: dict[int, InstanceAnswer] = {}
        for partition, numbers in rows.items():
            part = batch if len(rows) == 1 else batch.select(np.array(numbers))
            with self.replicas.turn(partition) as (model, moment):
                scores = self._scorer(partition, model).score(part)
                as_of = as_of_facts(moment, model.lineage.model)
            for number, scored in zip(numbers, scores, strict=True):
                found[number] = InstanceAnswer(prediction_facts(scored), as_of)
        return self._reply([found[number] for number in range(len(instances))])

    def explain_each(self, instances: Sequence[Instance]) -> Iterator[InstanceAnswer]:
        """Yield what `explained` makes the reply to `:explain` of; errors as of `predict`, the first before any answer.

        Each instance has a turn of its own on the model, as its explanation reads the whole table: the caller sees to
        it that others are answered between two. Of models of classes, the most probable one is explained.
        """
        rows, batch = self._read(instances)
        batch = batch.select(np.arange(len(instances)))  # the next request that is read is read into the same memory
        partitions = {number: partition for partition, numbers in rows.items() for number in numbers}
        for number, instance in enumerate(instances):
            row = batch.select(np.array([number]))
            with self.replicas.turn(partitions[number]) as (model, moment):
                (scored,) = self._scorer(partitions[number], model).score(row)
                told = self._explained(model, row, instance)
                as_of = as_of_facts(moment, model.lineage.model)
            yield InstanceAnswer(prediction_facts(scored), as_of, told)

    def explained(self, answered: Sequence[InstanceAnswer]) -> ReplyFacts:
        """Return the reply to `:explain`, of what `explain_each` has yielded."""
        return self._reply(answered) | {"explanations": [each.explanation for each in answered]}

    def _reply(self, answered: Sequence[InstanceAnswer]) -> ReplyFacts:
        return {
            "predictions": [each.prediction for each in answered],
            "as_of": [each.as_of for each in answered],
            "model": self.model,
        }

    def _read(self, instances: Sequence[Instance]) -> tuple[Mapping[int, list[int]], Batch]:
        """Return which instances are for the model of which partition, and all of them as a batch."""
        rows, faults = self._chosen(instances)
        return rows, read_instances(self._reader, instances, faults)

    def _scorer(self, partition: int, model: PartitionModel) -> InstanceScorer:
        """Return what scores by this model, which is another one when the partition has been restored."""
        found = self._scorers.get(partition)
        if found is None or found.model is not model:
            found = self._scorers[partition] = InstanceScorer(model)
        return found

    def _chosen(self, instances: Sequence[Instance]) -> tuple[Mapping[int, list[int]], list[InstanceFault]]:
        """Return which instances are for the model of which partition, and those for which nobody can know."""
        rows, faults = defaultdict[int, list[int]](list), []
        for index, instance in enumerate(instances):
            choice = self._choice(instance)
            if isinstance(choice, str):
                faults.append(InstanceFault(index, "no_partition", choice))
            else:
                rows[choice].append(index)
        return rows, faults

    def _choice(self, instance: Instance) -> int | str:
        """Return the partition by whose model an instance is scored, or why nobody can know it."""
        count = len(self.replicas.by_partition)
        if instance.partition is not None:
            if instance.partition in self.replicas.by_partition:
                return instance.partition
            return f"expected a partition from 0 to {count - 1}, found {instance.partition}"
        if instance.key is not None:
            return self._partition_of(instance.key, count)
        if count == 1 or self.replicas.merged:
            return next((number for number in self.replicas.by_partition if self.replicas.is_ready(number)), 0)
        return f'expected a "key" or a "partition", there being {count} models that are not merged, found neither'

    def _explained(self, model: PartitionModel, row: Batch, instance: Instance) -> ReplyFacts:
        learner = model.learner
        names = Names(ngrams=ngrams_of(learner.options))
        names.add(names_in(self._reader.message(instance.value), names.ngrams))
        found = of_highest_score(explain_scores(learner, names, row))
        facts: ReplyFacts = plain(found)
        return facts


def read_instances(
    reader: InstanceReader, instances: Sequence[Instance], faults: Sequence[InstanceFault] = ()
) -> Batch:
    """Return a batch with a row for each instance; BadInstancesError names each that has a fault, by its first one.

    faults  that are known beside those that the instances have
    """
    known = {each.fault.instance: each.fault for each in instances if each.fault is not None}
    for fault in faults:
        known.setdefault(fault.instance, fault)
    try:
        batch = reader.read([each.value for each in instances])
    except BadInstancesError as error:
        for fault in error.faults:
            known.setdefault(fault.instance, fault)
    if known:
        raise BadInstancesError([known[index] for index in sorted(known)])
    return batch


def as_of_facts(moment: Moment, model: str) -> ReplyFacts:
    """Return what a reply says of the model: all that it takes to make the answer again."""
    return moment.facts() | {"model": model}


def prediction_facts(scored: InstanceScore) -> ReplyFacts:
    """Return what a reply says of an instance."""
    prediction, probability, probabilities = scored
    told: ReplyFacts = {"prediction": prediction}
    if probability is not None:
        told["probability"] = probability
    if probabilities:
        told["prediction"] = int(prediction)
        told["probabilities"] = {str(label): each for label, each in enumerate(probabilities)}
    return told
