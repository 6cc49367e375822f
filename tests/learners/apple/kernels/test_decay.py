"""The rule of decay: lazily the same as all weights at each step, and its promises one by one."""

import math

import numpy as np
import pytest
from support.from_python import from_python
from support.oracles.learner import decayed
from vowpalwabbit import pyvw

from stream_apple.learners.apple.kernels.decay import decay_rule, no_decay_yet
from stream_apple.learners.apple.kernels.decay import in_table_units as of_scale_routine
from stream_apple.learners.apple.kernels.decay import shrink as shrink_routine
from stream_apple.learners.apple.kernels.decay import soft_threshold as drawn_to_zero_routine
from stream_apple.learners.apple.state.model import Decay
from stream_apple.learners.apple.state.table import MOST

soft_threshold = from_python(drawn_to_zero_routine)
in_table_units = from_python(of_scale_routine)
shrink = from_python(shrink_routine)


class Lazy:
    """Weights in float64 that are written when they are present, by the functions that kernels use."""

    def __init__(self, size: int, l2: float, l1: float) -> None:
        self.rule = decay_rule(l2, l1)
        self.decay = no_decay_yet(self.rule, mixed=False)
        self.kept, self.stamps = np.zeros(size), np.zeros(size)

    def weight(self, at: int) -> float:
        """As it is by now."""
        return float(self.decay.scale[1] * soft_threshold(self.kept[at], self.decay.drawn[1] - self.stamps[at]))

    def learn(self, present: dict[int, float], by: float, slope: float) -> None:
        """Decay all, and add `by` times its value to each that is present."""
        shrink(self.decay, self.rule, 1, (by, slope), np.inf)
        for at, x in present.items():
            now = soft_threshold(self.kept[at], self.decay.drawn[1] - self.stamps[at])
            self.kept[at], self.stamps[at] = now + by * x / self.decay.scale[1], self.decay.drawn[1]

    def settle(self) -> None:
        """Write all weights."""
        self.kept[:] = [self.weight(at) for at in range(len(self.kept))]
        self.stamps[:] = self.decay.drawn[:] = 0.0
        self.decay.scale[:] = 1.0


@pytest.mark.parametrize(("l2", "l1"), [(1e-2, 0.0), (0.0, 1e-3), (1e-2, 1e-3), (0.3, 0.05)])
def test_lazily_is_the_dense_loop(l2: float, l1: float) -> None:
    """Every prediction and every weight, at a rate that differs from example to example: 1e-12."""
    rng, size = np.random.default_rng(4), 40
    lazy, dense, zeros = Lazy(size, l2, l1), np.zeros(size), 0
    for _ in range(800):
        present = {int(at): float(x) for at, x in zip(rng.choice(size, 6), rng.normal(size=6), strict=True)}
        rate, slope = float(rng.uniform(0.01, 1.0)), float(rng.choice([-1.0, 1.0]) * rng.uniform(0.1, 2.0))
        scores = [sum(weight(at) * x for at, x in present.items()) for weight in (lazy.weight, dense.__getitem__)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-12, abs=1e-12)
        by = -rate * slope
        dense = np.array([decayed(weight, rate, l2, l1) for weight in dense.tolist()])
        for at, x in present.items():
            dense[at] += by * x
        lazy.learn(present, by, slope)
        if lazy.decay.scale[1] < 1e-9:
            lazy.settle()
        zeros += int((dense == 0).sum())
        np.testing.assert_allclose([lazy.weight(at) for at in range(size)], dense, rtol=1e-12, atol=1e-12)
    assert (zeros > 5_000) == (l1 > 0.01)


def test_one_rate_does_not_do_for_a_gap() -> None:
    """Idle for 1,000 steps at .5, of which each shrinks by l2 * rate = .001, then the rate falls to .125.

    What was missed is of the rates that there were: .368, not the .779 that today's rate would give.
    """
    lazy = Lazy(2, 0.002, 0.0)
    lazy.learn({0: 1.0}, 1.0, -1.0)
    start = lazy.weight(0)
    for _ in range(1000):
        lazy.learn({1: 1.0}, 0.5, -1.0)
    lazy.learn({1: 1.0}, 0.125, -1.0)
    factor = lazy.weight(0) / start
    assert factor == pytest.approx(0.999**1000 * (1 - 0.002 * 0.125), rel=1e-12)
    assert factor == pytest.approx(0.368, abs=1e-3)


def test_who_is_born_late_owes_nothing() -> None:
    """A weight is drawn to 0 by what came after it, and not by all that came before, nor is its own step."""
    lazy = Lazy(2, 0.0, 0.01)
    for _ in range(1000):
        lazy.learn({1: 1.0}, 0.5, -1.0)
    lazy.learn({0: 1.0}, 0.5, -1.0)
    assert lazy.weight(0) == 0.5
    lazy.learn({1: 1.0}, 0.5, -1.0)
    assert lazy.weight(0) == pytest.approx(0.5 - 0.01 * 0.5, rel=1e-12)


def test_smoke_of_vowpal_wabbit() -> None:
    """`--sgd --noconstant -l .5 --power_t 0 --l2 .1`, learning a, then b: a scores .25, then .2375. In both."""
    arguments = "--sgd --noconstant -l .5 --power_t 0 --l2 .1 --loss_function logistic --quiet"
    workspace = pyvw.Workspace(arg_list=arguments.split())
    lazy = Lazy(2, 0.1, 0.0)
    for at, expected in ((0, 0.25), (1, 0.2375)):
        workspace.learn(f"1 | {'ab'[at]}")
        slope = -1.0 / (1.0 + math.exp(lazy.weight(at)))
        lazy.learn({at: 1.0}, -0.5 * slope, slope)
        assert lazy.weight(0) == pytest.approx(expected, rel=1e-12)
        assert workspace.predict("| a") == pytest.approx(expected, rel=1e-6)
    workspace.finish()


@pytest.mark.parametrize("rate", [1e-12, 1.0, 1e18])
def test_a_scale_is_never_0_nor_negative(rate: float) -> None:
    """Whatever is asked for, one example shrinks to a thousandth at most; and all stays finite."""
    rule = decay_rule(1000.0, 1000.0)
    decay = Decay(np.ones(2), np.zeros(2))
    for _ in range(3):
        shrink(decay, rule, 1, (rate, -1.0), np.inf)
        assert 2.0**-30 <= decay.scale[1] <= 1.0
        assert 0.0 <= decay.drawn[1] < np.inf
    assert decay.scale[0] == 1.0
    assert in_table_units(1e300, 2.0**-40) == MOST
    assert in_table_units(-1e300, 2.0**-40) == -MOST


def test_steps_of_next_to_nothing_decay_nothing() -> None:
    """As in Vowpal Wabbit: what a rate is can't be told from them."""
    rule = decay_rule(0.5, 0.5)
    decay = Decay(np.ones(2), np.zeros(2))
    for step in ((1e-8, -1.0), (1.0, -1e-8), (0.0, 0.0)):
        shrink(decay, rule, 1, step, np.inf)
    assert decay.scale.tolist() == [1.0, 1.0]
    assert decay.drawn.tolist() == [0.0, 0.0]


def test_a_rate_is_at_most_twice_that_of_the_step() -> None:
    """Where the slope is next to nothing the approximate step may be a hundred times too long for it."""
    decay = Decay(np.ones(2), np.zeros(2))
    shrink(decay, decay_rule(0.5, 0.5), 1, (1e-3, -1e-5), 0.5)
    assert decay.scale[1] == 0.5
    assert decay.drawn[1] == 0.5 / 0.5
