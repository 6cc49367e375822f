"""What a model has found, with names: the view of one partition that the status page and `inspect` show.

It may be made of a live model by another thread than the loop's, without a lock: the arrays stay where they are, and a
number that is a moment older than its neighbour does no harm in a display. The loop pays nothing for being watched.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.feature_names import Names
from stream_apple.core.learner.factorization import Factors, Product
from stream_apple.core.learner.kernels.table import PARENT, Slots
from stream_apple.core.learner.learner import Learner
from stream_apple.core.learner.predictor_quality import QualityReport
from stream_apple.core.learner.preparation.derived_names import Derived, derived_names
from stream_apple.core.learner.progressive_loss import LossReport
from stream_apple.runtime.lineage import Lineage, SnapshotPointer
from stream_apple.runtime.monitoring.predictors import MixtureView, losses_of, mixture_of, qualities_of
from stream_apple.runtime.partition_model import PartitionModel

TIMES = " \u00d7 "
"""Between the names of a product."""
_SUPERSCRIPTS = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_UNKNOWN = "?"
_LOOKUPS = 1 << 22
"""Of children, for one view: some tenths of a second. The heaviest parents come first."""


class Monomial(NamedTuple):
    """One monomial.

    name      its factors and TIMES between, powers with superscript digits
    factors   names of its base features; `?` and hex digits for a key without a name, `?` for one not even known
    key       16 hex digits
    salience  |weight| * scale: what it adds to a score at its largest
    linear_weight  what the linear predictor has for it: 0 for products
    parent    whether it is one now
    """

    name: str
    factors: tuple[str, ...]
    key: str
    degree: int
    weight: float
    scale: float
    salience: float
    linear_weight: float
    parent: bool


class Parent(NamedTuple):
    """A parent, and what its products with base features have become.

    children  how many have a slot
    gain      the sum of their salience
    heaviest  the name of the most salient, empty if there is none
    """

    name: str
    degree: int
    salience: float
    children: int
    gain: float
    heaviest: str


class Degree(NamedTuple):
    """How many monomials, and how many parents, have this degree."""

    degree: int
    monomials: int
    parents: int
    salience: float


class Fill(NamedTuple):
    """How full the table is, and what that has cost; the numbers are since the model's start."""

    slots: int
    occupied: int
    evicted: int
    deferred: int
    refused: int


class ModelState(NamedTuple):
    """Which model it is, and how far it has come.

    at        the first offset that it has not learned
    epoch     number of the current one, -1 before the first record
    digest    of the model when `ended_epoch` had ended, empty before
    snapshot  the newest committed one that is known
    """

    topic: str
    partition: int
    lineage: Lineage
    at: int
    epoch: int
    ended_epoch: int
    digest: str
    snapshot: SnapshotPointer | None


class LearningView(NamedTuple):
    """What it has learned from, and how well.

    losses    by span: start, epoch, last_epoch, recent
    quality   AUC and calibration, by span and predictor
    mixture   of what its predictions are mixed
    constant  weight of the constant
    discretised  how many features are cut into intervals by now
    """

    options: dict[str, Any]
    examples: int
    features_per_example: float
    truncated: int
    losses: dict[str, LossReport]
    quality: dict[str, dict[str, QualityReport]]
    mixture: MixtureView
    constant: float
    fill: Fill
    discretised: int


class MonomialsView(NamedTuple):
    """What it has found: the heaviest monomials, products and parents.

    parents  the ones with most gain, out of `parents_examined`
    named    share of the factors of the heaviest ones whose names are known, from 0 to 1
    shared   whether weights are of all features of equal hash: then none has a name
    """

    degrees: tuple[Degree, ...]
    top: tuple[Monomial, ...]
    products: tuple[Monomial, ...]
    parents: tuple[Parent, ...]
    parents_examined: int
    named: float
    shared: bool


class ModelView(NamedTuple):
    """One partition's model. `seconds`: how long it took to look at it."""

    state: ModelState
    learning: LearningView
    monomials: MonomialsView
    seconds: float

    def facts(self, top: int) -> dict[str, Any]:
        """All of it in one JSON object, with at most `top` monomials, products and parents."""
        found = self.monomials
        cut = found._replace(top=found.top[:top], products=found.products[:top], parents=found.parents[:top])
        parts: list[dict[str, Any]] = [plain(part) for part in (self.state, self.learning, cut)]
        return {**parts[0], **parts[1], **parts[2], "seconds": self.seconds}


def view_model(model: PartitionModel, names: Names, top: int, snapshot: SnapshotPointer | None = None) -> ModelView:
    """The view of `model` now, with its `top` heaviest monomials, products and parents."""
    began = time.perf_counter()
    learner = model.learner
    state = ModelState(
        topic=model.topic,
        partition=model.partition,
        lineage=model.lineage,
        at=model.next_offset,
        epoch=model.clock.epoch,
        ended_epoch=model.ended.epoch,
        digest=model.ended.digest,
        snapshot=snapshot,
    )
    learning = LearningView(
        options=asdict(learner.options),
        examples=learner.examples,
        features_per_example=learner.features_per_example,
        truncated=learner.truncated,
        losses=losses_of(learner),
        quality=qualities_of(learner),
        mixture=mixture_of(learner),
        constant=float(learner.table.slots["weight"][-1]),
        fill=Fill(learner.capacity, learner.occupied, learner.evicted, learner.deferred, learner.refused),
        discretised=len(learner.preparation.intervals.features),
    )
    monomials = _monomials(learner, names, top)
    return ModelView(state, learning, monomials, time.perf_counter() - began)


def _monomials(learner: Learner, names: Names, top: int) -> MonomialsView:
    slots = learner.table.slots
    salience = np.abs(slots["weight"][:-1]) * slots["scale"][:-1]
    salience[slots["key"][:-1] == 0] = 0.0
    degree = slots["degree"][:-1]
    shares = learner.options.collisions == "share"
    factors = None if shares else Factors(learner.table, np.fromiter(names.known(), np.uint64))
    formatter = _MonomialFormatter(slots, salience, factors, names, derived_names(learner.preparation.intervals))
    heaviest = [formatter.monomial(at) for at in _heaviest(salience, top)]
    products = [formatter.monomial(at) for at in _heaviest(np.where(degree > 1, salience, 0.0), top)]
    parents, examined = formatter.parents(_parents(slots, salience), top)
    names.keep(formatter.used)
    return MonomialsView(
        degrees=_degrees(slots, salience),
        top=tuple(heaviest),
        products=tuple(products),
        parents=parents,
        parents_examined=examined,
        named=formatter.share_named,
        shared=factors is None,
    )


def name_of(factors: Sequence[str]) -> str:
    """A product as people write it: `device=phone`, `country=de`, `country=de` is `device=phone x country=de^2`."""
    powers = Counter(factors)
    unknown = powers.pop(_UNKNOWN, 0)
    told = [name if power == 1 else name + str(power).translate(_SUPERSCRIPTS) for name, power in powers.items()]
    return TIMES.join((*told, *(_UNKNOWN for _ in range(unknown))))


def plain(item: object) -> Any:  # noqa: ANN401  JSON has many types
    """Named tuples as objects, and numbers that JSON does not have as null."""
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        return {name: plain(value) for name, value in item._asdict().items()}
    if isinstance(item, dict):
        return {str(name): plain(value) for name, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(value) for value in item]
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    return item


class _MonomialFormatter:
    """Describes monomials by their slots; without `factors` none has a name.

    used  keys of the base features that were named, or would have been
    """

    def __init__(
        self,
        slots: Slots,
        salience: NDArray[np.float32],
        factors: Factors | None,
        names: Names,
        derived: Mapping[int, Derived],
    ) -> None:
        self.used: set[int] = set()
        self._described: dict[int, Monomial] = {}
        self._slots = slots
        self._salience = salience
        self._factors = factors
        self._names = names
        self._derived = derived

    @property
    def share_named(self) -> float:
        """Of the base features in `used`, how many have a name."""
        named = sum(self._names.get(key) is not None for key in self.used)
        return named / len(self.used) if self.used else float(self._factors is not None)

    def monomial(self, at: int) -> Monomial:
        """The one in slot `at`, the same at every call."""
        if at not in self._described:
            self._described[at] = self._describe(at)
        return self._described[at]

    def _describe(self, at: int) -> Monomial:
        slot = self._slots[at]
        product = None if self._factors is None else self._factors.of(int(slot["key"]), int(slot["degree"]))
        factors = (f"{_UNKNOWN}{int(slot['key']):016x}",) if product is None else tuple(self._named(product))
        return Monomial(
            name=name_of(factors),
            factors=factors,
            key=f"{int(slot['key']):016x}",
            degree=int(slot["degree"]),
            weight=float(slot["weight"]),
            scale=float(slot["scale"]),
            salience=abs(float(slot["weight"])) * float(slot["scale"]),
            linear_weight=float(slot["linear_weight"]) if slot["degree"] <= 1 else 0.0,
            parent=bool(slot["parent"] & PARENT),
        )

    def parents(self, candidates: NDArray[np.int64], top: int) -> tuple[tuple[Parent, ...], int]:
        """The `top` with most gain, and how many were examined: the first of `candidates`, as time permits."""
        if self._factors is None:
            return (), 0
        examined = candidates[: max(_LOOKUPS // max(len(self._factors.bases), 1), 1)]
        offspring = [(self._factors.offspring(int(self._slots["key"][at])), int(at)) for at in examined]
        offspring.sort(key=lambda pair: -pair[0].salience)
        return tuple(
            Parent(
                name=self.monomial(at).name,
                degree=int(self._slots["degree"][at]),
                salience=float(self._salience[at]),
                children=found.children,
                gain=found.salience,
                heaviest="" if found.best < 0 else self.monomial(found.best).name,
            )
            for found, at in offspring[:top]
        ), len(examined)

    def _named(self, product: Product) -> Iterator[str]:
        named, unnamed = [], []
        for key in product.bases:
            feature, ending = self._derived.get(key, (key, ""))
            self.used.add(feature)
            name = self._names.get(feature)
            if name is None:
                unnamed.append(f"?{feature:016x}{ending}")
            else:
                named.append(name + ending)
        yield from sorted(named)
        yield from unnamed
        yield from (_UNKNOWN for _ in range(product.unknown))


def _heaviest(salience: NDArray[np.float32], top: int) -> list[int]:
    """Slots of the `top` largest saliences above 0, the largest first, of equals the lower slot."""
    top = min(top, len(salience))
    found = np.argpartition(salience, -top)[-top:] if 0 < top < len(salience) else np.arange(len(salience))
    found = found[salience[found] > 0]
    order: list[int] = found[np.lexsort((found, -salience[found]))][:top].tolist()
    return order


def _parents(slots: Slots, salience: NDArray[np.float32]) -> NDArray[np.int64]:
    """Slots of the parents, the most salient first."""
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
