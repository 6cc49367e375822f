"""Sets of data that scikit-learn, River, and the demo carry or make, each with the loss that it is learned with.

The defaults of the product were chosen on those of `carried_sets`, and on files; not on those of `held_out_sets`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import xxhash

from stream_apple.config.duration import DAY
from stream_apple.core.batch import Batch, Limits
from stream_apple.demo.clicks import clicks
from stream_apple.learners.apple.options import LossName
from stream_apple.offline.dataset import read_batch
from study.held_out_sets import arrays, streams

_DAYS = 6  # of the clicks
_LIMITS = Limits(65_535, 1 << 30, 1e6, -1e12, 1e12, binary=False)
_IN_TIME = ("eeg", "cal-housing")
"""Beginnings of the names of files whose order is that of time."""


class CarriedSet(NamedTuple):
    """Examples, how they are learned, and the first row from which all labels are turned over; 0 if none are."""

    loss: LossName
    classes: int
    batch: Batch
    flip: int = 0


def _batch_of(rows: Iterable[Mapping[Any, Any]], labels: Iterable[float]) -> Batch:
    """Return examples of these features: texts are categories, numbers are numbers."""
    ends, keys, values = [0], [], []
    for row in rows:
        for name, value in row.items():
            text = f"{name}={value}" if isinstance(value, str) else str(name)
            number = 1.0 if isinstance(value, str) else float(value)
            if number:
                keys.append(xxhash.xxh64_intdigest(text.encode()))
                values.append(number)
        ends.append(len(keys))
    given = np.array(list(labels), np.float64)
    return Batch(np.array(ends), np.array(keys, np.uint64), np.array(values, np.float32), given, np.ones(len(given)))


def _of_arrays(found: SimpleNamespace, loss: LossName, classes: int) -> CarriedSet:
    """Return a set of scikit-learn's, shuffled."""
    order = np.random.default_rng(2).permutation(len(found.target))
    rows = [dict(enumerate(row)) for row in found.data[order].tolist()]
    labels = found.target[order].astype(np.float64)
    return CarriedSet(loss, classes, _batch_of(rows, 2.0 * labels - 1.0 if loss == "logistic" else labels))


def _of_river(stream: Iterable[tuple[Mapping[Any, Any], Any]], loss: LossName, classes: int, count: int) -> CarriedSet:
    """Return the first `count` examples of a stream of River's; classes are numbered as they come."""
    rows, labels = [], []
    known: dict[Any, int] = {}
    for x, given in islice(stream, count):
        rows.append({name: value for name, value in x.items() if isinstance(value, str | int | float)})
        y = next(iter(given.values())) if isinstance(given, dict) else given
        labels.append((1.0 if y else -1.0) if loss == "logistic" else known.setdefault(y, len(known)) if classes else y)
    return CarriedSet(loss, classes, _batch_of(rows, labels))


def flipped(given: CarriedSet) -> CarriedSet:
    """Return the set with the labels of its second half turned over, or with each class there called as the next."""
    labels, middle = given.batch.labels.copy(), len(given.batch.labels) // 2
    labels[middle:] = (labels[middle:] + 1.0) % given.classes if given.classes else -labels[middle:]
    return given._replace(batch=given.batch._replace(labels=labels), flip=middle)


def set_of_file(path: Path, count: int) -> CarriedSet:
    """Return the first `count` examples of a file: shuffled, unless its name says that it is in the order of time."""
    batch = read_batch([path], _LIMITS)
    kinds = np.unique(batch.labels)
    order = np.arange(len(batch.labels))
    if not path.name.startswith(_IN_TIME):
        order = np.random.default_rng(1).permutation(len(order))
    batch = batch.select(order[:count])
    if len(kinds) > 2:
        return CarriedSet("squared", 0, batch)
    return CarriedSet("logistic", 0, batch._replace(labels=np.where(batch.labels == kinds[1], 1.0, -1.0)))


def carried_sets(count: int) -> Iterator[tuple[str, CarriedSet]]:
    """Yield the sets by name on which defaults were chosen, of each the first `count` examples."""
    import river.datasets
    from river.datasets import synth
    from sklearn import datasets as shipped

    for name, classes in (("digits", 10), ("wine", 3), ("iris", 3)):
        yield name, _of_arrays(getattr(shipped, f"load_{name}")(), "softmax", classes)
    yield "breast cancer", _of_arrays(shipped.load_breast_cancer(), "logistic", 0)
    yield "diabetes", _of_arrays(shipped.load_diabetes(), "squared", 0)
    makers: dict[str, tuple[Callable[[], Any], LossName, int]] = {
        "bananas": (river.datasets.Bananas, "logistic", 0),
        "phishing": (river.datasets.Phishing, "logistic", 0),
        "segments": (river.datasets.ImageSegments, "softmax", 7),
        "trump": (river.datasets.TrumpApproval, "squared", 0),
        "solar flares": (river.datasets.SolarFlare, "squared", 0),
        "chicks": (river.datasets.ChickWeights, "squared", 0),
        "agrawal": (lambda: synth.Agrawal(classification_function=4, seed=1), "logistic", 0),
        "sea": (lambda: synth.SEA(variant=0, seed=1), "logistic", 0),
        "hyperplane": (lambda: synth.Hyperplane(seed=1, n_features=10, n_drift_features=5), "logistic", 0),
        "rbf": (lambda: synth.RandomRBF(seed_model=1, seed_sample=1, n_classes=5, n_features=10), "softmax", 5),
        "rbf drift": (lambda: synth.RandomRBFDrift(seed_model=1, seed_sample=1, change_speed=0.001), "logistic", 0),
        "led": (lambda: synth.LEDDrift(seed=1, noise_percentage=0.1, n_drift_features=4), "softmax", 10),
        "friedman": (lambda: synth.Friedman(seed=1), "squared", 0),
        "friedman drift": (lambda: synth.FriedmanDrift(seed=1, drift_type="gra", position=(3000, 5000)), "squared", 0),
        "mv": (lambda: synth.Mv(seed=1), "squared", 0),
        "clicks": (lambda: ((each.features, each.label) for each in clicks(count, 1, 0, _DAYS * DAY)), "logistic", 0),
    }
    made = {name: _of_river(make(), loss, classes, count) for name, (make, loss, classes) in makers.items()}
    yield from made.items()
    for name in ("agrawal", "sea", "hyperplane"):
        yield f"{name}, flipped", flipped(made[name])


def held_out_sets(count: int) -> Iterator[tuple[str, CarriedSet]]:
    """Yield the sets by name on which no default was chosen."""
    for name, found, loss, classes in arrays(count):
        yield name, _of_arrays(found, loss, classes)
    for name, (make, loss, classes) in streams().items():
        yield name, _of_river(make(), loss, classes, count)


def with_squared_loss(given: CarriedSet) -> CarriedSet:
    """Return a set of two labels with the squared loss, labels being 0 and 1; any other as it is."""
    if given.loss != "logistic":
        return given
    return given._replace(
        loss="squared", batch=given.batch._replace(labels=(given.batch.labels > 0).astype(np.float64))
    )
