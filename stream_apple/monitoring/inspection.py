"""The view of one partition's model, with names of features, which the status page and `inspect` show.

Another thread than the loop's may make it of a live model, without a lock: the arrays stay where they are, and it does
no harm in a display if one number is a moment older than another. So being watched costs the loop nothing.
"""

import math
import time
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.feature_names import Names
from stream_apple.learners.apple.learner import Learner, as_apple
from stream_apple.learners.apple.state.table import PARENT, Slots
from stream_apple.learners.progress.predictor_quality import QualityReport
from stream_apple.learners.progress.progressive_loss import LossReport
from stream_apple.monitoring.monomial_views import Monomial, MonomialFormatter, Parent, SplineView
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
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, SnapshotPointer


class Degree(NamedTuple):
    """Counts the monomials, and among them the parents, of one degree."""

    degree: int
    monomials: int
    parents: int
    salience: float


class Fill(NamedTuple):
    """Says how full the table is, and how many monomials that has cost since the model's start."""

    slots: int
    occupied: int
    evicted: int
    deferred: int
    refused: int


class MonomialsView(NamedTuple):
    """Holds what the model has found: the heaviest monomials, products and parents.

    parents  those with the largest gain, out of `parents_examined`
    named    share of the factors of the heaviest ones whose names are known, from 0 to 1
    splines  those whose hats are the most salient
    """

    degrees: tuple[Degree, ...]
    top: tuple[Monomial, ...]
    products: tuple[Monomial, ...]
    parents: tuple[Parent, ...]
    parents_examined: int
    named: float
    splines: tuple[SplineView, ...]


class ModelView(NamedTuple):
    """Says which model it is, how far it has come, what it has learned from, and how well.

    at           the first offset that it has not learned
    epoch        number of the current epoch, -1 before the first record
    digest       of the learner at the end of `ended_epoch`, empty before the first end
    snapshot     the newest committed one that is known
    losses       by span: start, epoch, last_epoch, recent
    quality      AUC and calibration, by span and predictor
    asked        what became of the scores of examples that came without a label
    mixture      how its predictions are mixed
    constant     weight of the constant
    numbers      how many features have splines so far
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
    examples: int
    features_per_example: float
    truncated: int
    losses: dict[str, LossReport]
    quality: dict[str, dict[str, QualityReport]]
    asked: AskedView
    mixture: MixtureView
    constant: float
    fill: Fill
    numbers: int
    classes: tuple[ClassView, ...]
    monomials: MonomialsView
    seconds: float

    def facts(self, top: int) -> dict[str, Any]:
        """Return the view as one JSON object, with at most `top` monomials, products and parents."""
        found = self.monomials
        cut = found._replace(
            top=found.top[:top], products=found.products[:top], parents=found.parents[:top], splines=found.splines[:top]
        )
        facts: dict[str, Any] = plain(self._replace(classes=self.classes[:top], monomials=cut))
        monomials, seconds = facts.pop("monomials"), facts.pop("seconds")
        return {**facts, **monomials, "seconds": seconds}


def view_model(model: PartitionModel, names: Names, top: int, snapshot: SnapshotPointer | None = None) -> ModelView:
    """Return the view of `model` now, with its `top` heaviest monomials, products and parents."""
    began = time.perf_counter()
    learner = as_apple(model.learner)
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
        examples=learner.examples,
        features_per_example=learner.features_per_example,
        truncated=learner.truncated,
        losses=losses_of(learner),
        quality=qualities_of(learner),
        asked=asked_of(model.early),
        mixture=mixture_of(learner),
        constant=float(learner.table.slots["weight"][-1]),
        fill=Fill(
            learner.capacity,
            learner.occupied,
            learner.evicted,
            learner.deferred,
            learner.refused,
        ),
        numbers=int(np.count_nonzero(np.diff(learner.preparation.splines.ends, prepend=0))),
        classes=classes_of(learner, top),
        monomials=monomials,
        seconds=time.perf_counter() - began,
    )


def view_monomials(learner: Learner, names: Names, top: int) -> MonomialsView:
    """Return what a learner has found: its `top` heaviest monomials, products and parents."""
    formatter = MonomialFormatter(learner, names)
    slots, salience = learner.table.slots, formatter.salience
    degree = slots["degree"][:-1]
    heaviest = [formatter.monomial(at) for at in _heaviest(salience, top)]
    products = [formatter.monomial(at) for at in _heaviest(np.where(degree > 1, salience, 0.0), top)]
    parents, examined = formatter.parents(_parents(slots, salience), top)
    splines = formatter.splines(learner.preparation.splines, top)
    names.keep(formatter.used)
    return MonomialsView(
        degrees=_degrees(slots, salience),
        top=tuple(heaviest),
        products=tuple(products),
        parents=parents,
        parents_examined=examined,
        named=formatter.share_named,
        splines=splines,
    )


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


def _heaviest(salience: NDArray[np.float32], top: int) -> list[int]:
    """Return the slots of the `top` largest saliences above 0, the largest first, and of equals the lower slot."""
    top = min(top, len(salience))
    found = np.argpartition(salience, -top)[-top:] if 0 < top < len(salience) else np.arange(len(salience))
    found = found[salience[found] > 0]
    order: list[int] = found[np.lexsort((found, -salience[found]))][:top].tolist()
    return order


def _parents(slots: Slots, salience: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the slots of the parents, the most salient first."""
    found = np.flatnonzero(((slots["parent"][:-1] & PARENT) != 0) & (slots["key"][:-1] != 0))
    return found[np.lexsort((slots["key"][found], -salience[found]))]


def _degrees(slots: Slots, salience: NDArray[np.float32]) -> tuple[Degree, ...]:
    used = slots["key"][:-1] != 0
    degree = slots["degree"][:-1]
    monomials = np.bincount(degree[used])
    parents = np.bincount(degree[used & ((slots["parent"][:-1] & PARENT) != 0)], minlength=len(monomials))
    weight = np.bincount(degree[used], salience[used])
    return tuple(
        Degree(number, *counts)
        for number, counts in enumerate(zip(monomials.tolist(), parents.tolist(), weight.tolist(), strict=True))
        if number
    )
