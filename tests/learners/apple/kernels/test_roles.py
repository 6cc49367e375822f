"""What is made of features with roles: no square of a BIN; expanded by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from learners.apple.test_learner import key, monomial_key

from stream_apple.core.batch import BIN, Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import PARENT
from stream_apple.learners.scores import Scores

NAMES = ("x", "y", "i", "j")
ROLES = (0, 0, int(BIN), int(BIN))


def example(label: float = 1.0, names: tuple[str, ...] = NAMES) -> Batch:
    """One example: two plain features, and two indicators."""
    roles = [ROLES[NAMES.index(name)] for name in names]
    return Batch(
        np.array([0, len(names)]),
        np.array([key(name) for name in names], np.uint64),
        np.array([1.0 if role else 2.0 for role in roles], np.float32),
        np.array([label]),
        np.ones(1),
        roles=np.array(roles, np.uint8),
    )


def monomials(learner: Learner) -> set[int]:
    """The keys of all that have a slot."""
    slots = learner.slots()
    return set(slots["key"][:-1][slots["key"][:-1] != 0].tolist())


def products(degree: int) -> set[int]:
    """All that there may be, of up to so many factors, without squares of BINs."""
    found: set[tuple[str, ...]] = {(name,) for name in NAMES}
    for size in range(2, degree + 1):
        for factors in itertools.combinations_with_replacement(NAMES, size):
            if max(factors.count("i"), factors.count("j")) < 2:
                found.add(factors)
    return {monomial_key(factors) for factors in found}


@pytest.mark.parametrize(("method", "degree"), [("linear", 1), ("quadratic", 2), ("cubic", 3)])
def test_exhaustive_methods(method: Any, degree: int) -> None:
    """Each product once, and exactly those."""
    learner = Learner(Options(method=method, bits=10))
    learner.learn(example(), 0, 1, Scores.empty(1))
    assert monomials(learner) == products(degree)
    assert learner.features_per_example == 1 + len(products(degree))


def test_growth_to_the_third_degree() -> None:
    """All that may be parents are; still no product has a BIN twice, by whichever parent it is reached."""
    learner = Learner(Options(mixture=False, bits=12, alpha=2.0))
    for degree in (1, 2, 3):
        for names in (NAMES, NAMES[::-1], NAMES[2:]):
            batch = example(label=float(len(names)), names=names)
            for _ in range(4):
                learner.learn(batch, 0, 1, Scores.empty(1))
        assert monomials(learner) == products(degree)
        learner.end_epoch()
    slots = learner.slots()[:-1]
    assert (slots["parent"][(slots["degree"] == 2)] & PARENT).all()


@pytest.mark.parametrize("method", ["apple", "quadratic"])
def test_no_role_is_as_none_at_all(method: Any) -> None:
    """Roles of 0 change no bit."""
    mixture: Any = False
    digests = []
    for roles in (np.empty(0, np.uint8), np.zeros(len(NAMES), np.uint8)):
        learner = Learner(Options(method=method, mixture=mixture, bits=10))
        for epoch in range(3):
            for label in (1.0, -1.0, 0.5):
                learner.learn(example(label + epoch)._replace(roles=roles), 0, 1, Scores.empty(1))
            learner.end_epoch()
        digests.append(learner.digest())
    assert digests[0] == digests[1]
