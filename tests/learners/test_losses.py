"""Losses by name: what labels each has, and that names, numbers, and options agree."""

from typing import get_args

import numpy as np
import pytest

from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.loss_functions import write_losses
from stream_apple.learners.losses import LOGISTIC, LOSSES, SOFTMAX, SQUARED, Loss
from stream_apple.learners.tuples.options import TupleOptions


def test_options_have_the_losses_by_name() -> None:
    """Each name of the option is that of a loss, and the options of each system find it."""
    assert tuple(LOSSES) == get_args(LossName)
    assert Options(loss="softmax", classes=3).objective is SOFTMAX
    assert (HashedOptions().objective, TupleOptions(loss="squared").objective) == (LOGISTIC, SQUARED)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_labels_are_of_one_kind(loss: Loss) -> None:
    """Numbers, two labels, or classes."""
    assert [loss.real_valued, loss.binary, loss.multiclass].count(True) == 1
    assert (loss.known_labels(4) is None) == loss.real_valued


def test_known_labels() -> None:
    """Those that examples may have, with the words for them."""
    labels, words = SOFTMAX.known_labels(3) or ((), "")
    assert [label in labels for label in (0.0, 2.0, 3.0, 0.5, -1.0)] == [True, True, False, False, False]
    assert words == "whole numbers from 0 to 2"
    labels, _ = LOGISTIC.known_labels(0) or ((), "")
    assert [label in labels for label in (-1.0, 0.0, 1.0, 2.0)] == [True, True, True, False]


def test_values() -> None:
    """The squared miss, and the logarithm of the label's probability; NaN without a label."""
    scores, labels, losses = np.array([0.5, -2.0, 1.0]), np.array([1.0, 1.0, np.nan]), np.empty(3)
    write_losses(SQUARED.number, scores, labels, losses)
    np.testing.assert_array_equal(losses, [0.25, 9.0, np.nan])
    write_losses(LOGISTIC.number, scores, labels, losses)
    np.testing.assert_allclose(losses, [np.log1p(np.exp(-0.5)), np.log1p(np.exp(2.0)), np.nan])
