"""The view of one partition's model, with names of features, which the status page and `inspect` show.

Another thread than the loop's may make it of a live model, without a lock: the arrays stay where they are, and it does
no harm in a display if one number is a moment older than another. So being watched costs the loop nothing.
"""

import math
import time
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from stream_apple.learners.port import Census, Learner
from stream_apple.learners.progress.predictor_quality import QualityReport
from stream_apple.learners.progress.progressive_loss import LossReport
from stream_apple.monitoring.monomials import Monomial, MonomialFormatter, ShownTable
from stream_apple.monitoring.predictors import (
    AskedView,
    ClassView,
    MixtureView,
    asked_of,
    classes_of,
    losses_of,
    mixture_of,
    qualities_of,
)
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, SnapshotPointer


class Degree(NamedTuple):
    """Counts the monomials of one degree, and the parents among them."""

    degree: int
    monomials: int
    parents: int


class MonomialsView(NamedTuple):
    """Holds what the model has found: counts by degree, the heaviest monomials and products, and the learner's tables.

    named   share of the factors of all these whose names are known, from 0 to 1
    """

    degrees: tuple[Degree, ...]
    top: tuple[Monomial, ...]
    products: tuple[Monomial, ...]
    tables: tuple[ShownTable, ...]
    named: float


class ModelView(NamedTuple):
    """Says which model it is, how far it has come, what it has learned from, and how well.

    at           the first offset that it has not learned
    kind         which kind of model it is, in a few words
    epoch        number of the current epoch, -1 before the first record
    digest       of the learner at the end of `ended_epoch`, empty before the first end
    snapshot     the newest committed one that is known
    gauges       numbers that its learner reports, by name
    notes        sentences of its learner
    losses       by span: start, epoch, last_epoch, recent
    quality      AUC and calibration, by span and predictor
    asked        what became of the scores of examples that came without a label
    mixture      how its predictions are mixed
    classes      the most frequent ones, if labels are classes
    seconds      that making the view took
    """

    topic: str
    partition: int
    lineage: Lineage
    at: int
    epoch: int
    ended_epoch: int
    digest: str
    snapshot: SnapshotPointer | None
    options: dict[str, Any]
    kind: str
    examples: int
    features_per_example: float
    truncated: int
    gauges: dict[str, float]
    notes: tuple[str, ...]
    losses: dict[str, LossReport]
    quality: dict[str, dict[str, QualityReport]]
    asked: AskedView
    mixture: MixtureView
    classes: tuple[ClassView, ...]
    monomials: MonomialsView
    seconds: float

    def facts(self, top: int) -> dict[str, Any]:
        """Return the view as one JSON object, with at most `top` monomials, products, and rows of each table."""
        found = self.monomials
        tables = tuple(each._replace(rows=each.rows[:top]) for each in found.tables)
        cut = found._replace(top=found.top[:top], products=found.products[:top], tables=tables)
        facts: dict[str, Any] = plain(self._replace(classes=self.classes[:top], monomials=cut))
        monomials, seconds = facts.pop("monomials"), facts.pop("seconds")
        return {**facts, **monomials, "seconds": seconds}


def view_model(model: PartitionModel, names: Names, top: int, snapshot: SnapshotPointer | None = None) -> ModelView:
    """Return the view of `model` now, with at most `top` of everything that it has found."""
    began = time.perf_counter()
    learner = model.learner
    described = learner.describe()
    monomials = view_monomials(learner, names, top)
    return ModelView(
        topic=model.topic,
        partition=model.partition,
        lineage=model.lineage,
        at=model.next_offset,
        epoch=model.clock.epoch,
        ended_epoch=model.ended.epoch,
        digest=model.ended.digest,
        snapshot=snapshot,
        options=asdict(learner.options),
        kind=described.kind,
        examples=learner.examples,
        features_per_example=learner.features_per_example,
        truncated=learner.truncated,
        gauges=dict(described.gauges),
        notes=described.notes,
        losses=losses_of(learner),
        quality=qualities_of(learner),
        asked=asked_of(model.early),
        mixture=mixture_of(described),
        classes=classes_of(learner, top),
        monomials=monomials,
        seconds=time.perf_counter() - began,
    )


def view_monomials(learner: Learner, names: Names, top: int) -> MonomialsView:
    """Return what a learner has found, at most `top` of each kind."""
    formatter = MonomialFormatter(names)
    found = learner.find(top, formatter.known)
    named = partial(formatter.monomial, predictors=found.predictors)
    heaviest, products = tuple(map(named, found.heaviest)), tuple(map(named, found.products))
    tables = tuple(map(formatter.table, found.tables))
    names.keep(formatter.used)
    return MonomialsView(degrees_of(learner.census()), heaviest, products, tables, formatter.share_named)


def degrees_of(census: Census) -> tuple[Degree, ...]:
    """Return the counts by degree, from 1 on: the constant is always there."""
    counts = zip_longest(census.monomials.tolist(), census.parents.tolist(), fillvalue=0)
    return tuple(Degree(degree, *each) for degree, each in enumerate(counts) if degree)


def plain(item: object) -> Any:  # noqa: ANN401  JSON has many types
    """Return `item` in JSON types: named tuples as objects, and numbers that JSON does not have as null."""
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        return {name: plain(value) for name, value in item._asdict().items()}
    if isinstance(item, dict):
        return {str(name): plain(value) for name, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(value) for value in item]
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    return item
