"""Adaptive and plain steps of the learner `hashed`, and its options."""

import math
import subprocess
import sys

import numpy as np
import pytest
from learners.hashed.rows import Row, batch_of, drawn_labels, drawn_rows, learned, predictions, slot_of

from stream_apple.learners.hashed.options import HashedOptions

BITS = 12


def test_adaptive_steps_do_not_depend_on_the_unit_of_a_feature() -> None:
    """Grams instead of kilograms give the same scores; with plain steps they do not."""
    rows = drawn_rows(300, 0)
    labels = drawn_labels(rows, "squared")
    grams: list[Row] = [{key: 1000.0 * x for key, x in row.items()} for row in rows]
    batches = batch_of(rows, labels), batch_of(grams, labels)
    one, other = (predictions(learned(batch, bits=BITS, loss="squared"), batch) for batch in batches)
    assert other == pytest.approx(one, rel=1e-3, abs=1e-4)
    one, other = (predictions(learned(batch, bits=BITS, loss="squared", descent="plain"), batch) for batch in batches)
    assert np.abs(other - one).max() > 0.5


def test_adaptive_steps_of_a_rare_feature_are_larger() -> None:
    """A common feature's rate has fallen with the squares of its gradients; plain steps are equal."""
    rows: list[Row] = [{1: 1.0}] * 100 + [{1: 1.0, 2: 1.0}]
    labels = [1.0, -1.0] * 50 + [1.0]
    for descent, least, most in (("adaptive", 5.0, math.inf), ("plain", 0.99, 1.01)):
        before = learned(batch_of(rows[:-1], labels[:-1]), bits=BITS, descent=descent).weights()
        after = learned(batch_of(rows, labels), bits=BITS, descent=descent).weights()
        common, rare = (after[slot_of(key, BITS)] - before[slot_of(key, BITS)] for key in (1, 2))
        assert least < rare / common < most


def test_a_weight_of_two_counts_as_two_examples() -> None:
    """Plain steps are invariant to importance weights."""
    rows = drawn_rows(50, 1)
    labels = drawn_labels(rows, "squared")
    weighted = batch_of(rows, labels, [2.0] * 50)
    repeated = batch_of([row for row in rows for _ in range(2)], [label for label in labels for _ in range(2)])
    one, other = (
        learned(batch, bits=BITS, loss="squared", descent="plain").weights() for batch in (weighted, repeated)
    )
    assert one == pytest.approx(other, rel=1e-4, abs=1e-6)


def test_a_step_never_moves_a_score_beyond_the_label() -> None:
    """Even with a large rate and importance."""
    learner = learned(
        batch_of([{1: 3.0}], [7.0], [1e6]), bits=BITS, loss="squared", descent="plain", learning_rate=100.0
    )
    assert predictions(learner, batch_of([{1: 3.0}], [math.nan]))[0] == pytest.approx(7.0)


def test_a_confident_score_of_the_right_side_teaches_nothing() -> None:
    """The logistic loss is 0 there, so nothing but counts changes."""
    batch = batch_of([{1: 1.0}], [1.0], [1e9])
    learner = learned(batch, bits=BITS, descent="plain", learning_rate=1000.0)
    assert predictions(learner, batch)[0] > 17.0
    slots = learner.state.rows["slots"].copy()
    other = learned(batch_of([{1: 1.0}] * 2, [1.0] * 2, [1e9] * 2), bits=BITS, descent="plain", learning_rate=1000.0)
    assert np.array_equal(other.state.rows["slots"], slots)
    assert other.examples == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"descent": "newton"}, "descent: expected one of adaptive, plain"),
        ({"loss": "softmax"}, "loss: expected one of squared, logistic"),
        ({"l1": -1e-9}, "l1: expected a number from 0"),
        ({"l2": math.nan}, "l2: expected a number from 0"),
        ({"personalise": "a user"}, "personalise: expected a namespace"),
    ],
)
def test_a_value_out_of_bounds_is_refused(given: dict[str, object], expected: str) -> None:
    """The message names the option, what was expected, and what was found."""
    with pytest.raises(ValueError, match=expected):
        HashedOptions(**given)  # type: ignore[arg-type]


def test_options_need_neither_numpy_nor_numba() -> None:
    """The configuration is read before these are loaded."""
    code = "import sys, stream_apple.learners.hashed.options; print({'numpy', 'numba'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
