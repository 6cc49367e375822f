"""The options of a learner: what each may be, and that nothing heavy comes with them."""

import subprocess
import sys
from typing import Any

import pytest

from stream_apple.core.learner.options import ALPHA, BITS, LEARNING_RATE, MAX_FEATURES_PER_EXAMPLE, Options


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("method", "sextic", "one of apple, linear, quadratic, cubic"),
        ("loss", "hinge", "one of squared, logistic"),
        ("bits", 7, "an integer from 8 to 30"),
        ("bits", 31, "an integer from 8 to 30"),
        ("alpha", 0.0, "a number above 0 and at most 2"),
        ("alpha", 2.01, "a number above 0 and at most 2"),
        ("learning_rate", 0.0, "a number above 0 and at most 1000"),
        ("learning_rate", float("inf"), "a number above 0 and at most 1000"),
        ("learning_rate", float("nan"), "a number above 0 and at most 1000"),
        ("max_features_per_example", 1, "an integer from 2 to 16777216"),
    ],
)
def test_options_are_checked(field: str, value: object, expected: str) -> None:
    """A wrong option names itself, what was expected and what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**{field: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"Options.{field}: expected {expected}, found {value!r}"


def test_bounds_are_included_where_they_say_so() -> None:
    """The least and the largest value of each option make a learner's options."""
    Options(bits=BITS.low, alpha=5e-324, learning_rate=5e-324, max_features_per_example=MAX_FEATURES_PER_EXAMPLE.low)
    Options(
        bits=BITS.high,
        alpha=ALPHA.high,
        learning_rate=LEARNING_RATE.high,
        max_features_per_example=MAX_FEATURES_PER_EXAMPLE.high,
    )


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        ({"discretise": "deciles"}, "discretise: expected one of none, quantile, mdl, auto, found 'deciles'"),
        ({"bins": 8}, "bins: expected 12 with discretise = none, found 8"),
        ({"reservoir": 100}, "reservoir: expected 500 with discretise = none, found 100"),
        ({"discretise_namespaces": "a"}, "discretise_namespaces: expected '' with discretise = none, found 'a'"),
        ({"discretise": "mdl", "bins": 8}, "bins: expected 12 with discretise = mdl, found 8"),
        ({"discretise": "quantile", "bins": 1}, "bins: expected an integer from 2 to 64, found 1"),
        ({"discretise": "auto", "reservoir": 19}, "reservoir: expected an integer from 20 to 10000, found 19"),
        (
            {"discretise": "auto", "discretise_namespaces": "a,,b"},
            "discretise_namespaces: expected names with commas between, found 'a,,b'",
        ),
    ],
)
def test_contradictions_of_discretisation(chosen: dict[str, Any], fault: str) -> None:
    """Each names the option, what was expected, and what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**chosen)
    assert str(caught.value) == f"Options.{fault}"


def test_discretisation_names_a_model() -> None:
    """Models of before keep their name; each choice makes another, and what is left out is as if it were given."""
    plain = Options().identity()
    assert not plain.keys() & {"discretise", "bins", "reservoir", "discretise_namespaces"}
    names = [Options(**chosen).identity() for chosen in (
        {}, {"discretise": "quantile"}, {"discretise": "mdl"}, {"discretise": "auto"},
        {"discretise": "quantile", "bins": 6}, {"discretise": "auto", "bins": 12},
        {"discretise": "auto", "reservoir": 100}, {"discretise": "auto", "discretise_namespaces": "a"},
    )]  # fmt: skip
    assert all(names.count(name) == 1 for name in names)
    assert Options(discretise="auto") == Options(discretise="auto", bins=6, reservoir=500, product_budget=500)
    assert Options(discretise="auto").model_bytes() > Options(product_budget=500).model_bytes()


def test_nothing_heavy_is_imported() -> None:
    """The configuration imports the options: neither may delay a worker's start."""
    code = (
        "import sys, stream_apple.config, stream_apple.core.learner.options\n"
        "heavy = {'numpy', 'numba', 'xxhash'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
