"""Sets that scikit-learn and River make, and on which no default was chosen."""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from stream_apple.learners.apple.options import LossName

_SEED = 3


def arrays(count: int) -> Iterator[tuple[str, SimpleNamespace, LossName, int]]:
    """Yield name, examples as scikit-learn has them, loss, and number of classes."""
    from sklearn import datasets as made

    draw = np.random.default_rng(_SEED)
    skewed, counts, wide = (
        draw.lognormal(0, 1.5, (count, 8)),
        draw.poisson(2, (count, 12)),
        draw.normal(size=(count, 40)),
    )
    logs = np.log(skewed)
    given = {
        "moons": (made.make_moons(count, noise=0.3, random_state=_SEED), "logistic"),
        "circles": (made.make_circles(count, noise=0.15, factor=0.6, random_state=_SEED), "logistic"),
        "shells": (
            made.make_gaussian_quantiles(n_samples=count, n_features=6, n_classes=2, random_state=_SEED), "logistic",
        ),
        "four shells": (
            made.make_gaussian_quantiles(n_samples=count, n_features=5, n_classes=4, random_state=_SEED), "softmax",
        ),
        "hastie": (made.make_hastie_10_2(count, random_state=_SEED), "logistic"),
        "clusters": (
            made.make_classification(count, 20, n_informative=8, n_clusters_per_class=4, random_state=_SEED),
            "logistic",
        ),
        "clusters of five": (
            made.make_classification(count, 30, n_informative=10, n_classes=5, random_state=_SEED), "softmax",
        ),
        "friedman 2": (made.make_friedman2(count, noise=50, random_state=_SEED), "squared"),
        "friedman 3": (made.make_friedman3(count, noise=0.1, random_state=_SEED), "squared"),
        "four of ten": (made.make_sparse_uncorrelated(count, 10, random_state=_SEED), "squared"),
        "regression": (made.make_regression(count, 15, n_informative=10, noise=20, random_state=_SEED), "squared"),
        "skewed": ((skewed, logs[:, 0] * logs[:, 1] + skewed[:, 2] / (1 + skewed[:, 2]) > 0.5), "logistic"),
        "counts": ((counts, counts[:, 0] * counts[:, 1] - counts[:, 2] + draw.normal(size=count) > 2), "logistic"),
        "three of forty": ((wide, wide[:, :3].sum(1) + draw.normal(size=count) > 0), "logistic"),
    }  # fmt: skip
    for name, ((data, target), loss) in given.items():
        kinds = np.unique(target)
        labels = np.searchsorted(kinds, target) if loss != "squared" else target
        classes = len(kinds) if loss == "softmax" else 0
        yield name, SimpleNamespace(data=data, target=labels), cast("LossName", loss), classes


def streams() -> Mapping[str, tuple[Callable[[], Any], LossName, int]]:
    """Return, by name, what makes a stream of River's, its loss, and its number of classes."""
    from river.datasets import synth

    return {
        "waveform": (lambda: synth.Waveform(seed=_SEED), "softmax", 3),
        "sine": (lambda: synth.Sine(seed=_SEED, has_noise=True), "logistic", 0),
        "mixed": (lambda: synth.Mixed(seed=_SEED), "logistic", 0),
        "stagger": (lambda: synth.STAGGER(seed=_SEED), "logistic", 0),
        "planes": (lambda: synth.Planes2D(seed=_SEED), "squared", 0),
        "random tree": (lambda: synth.RandomTree(seed_tree=_SEED, seed_sample=_SEED), "logistic", 0),
    }
