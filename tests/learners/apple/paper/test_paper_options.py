"""Options that are the paper's: defaults that go by the method, and what contradicts each other."""

from typing import Any

import pytest

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options


@pytest.mark.parametrize(("method", "bits"), [("apple", 18), ("linear", 18), ("quadratic", 18), ("cubic", 24)])
def test_bits_go_by_the_method(method: Method, bits: int) -> None:
    """Triples need a larger table; and what is asked for is kept."""
    assert Options(method=method).bits == bits
    assert Options(method=method, bits=10).bits == 10
    assert Learner(Options(method=method)).capacity == 1 << bits


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"combine": "mix", "selection": "ssm"}, "selection: expected evidence or weight with combine = mix"),
        ({"selection": "ssm"}, "selection: expected evidence or weight with combine = mix"),
        ({"loss": "logistic", "descent": "plain", "l2": 0.1}, "descent: expected adaptive with combine = mix"),
        ({"combine": "off", "descent": "plain", "l2": 0.1}, "descent: expected adaptive with loss squared"),
        ({"descent": "steep"}, "descent: expected one of adaptive, plain, found 'steep'"),
        ({"combine": "off", "loss": "logistic", "descent": "plain"}, "l2: expected a number above 0 and at most 1000"),
        ({"l2": -1.0}, "l2: expected a number from 0 to 1000, found -1.0"),
        ({"l2": 0.1}, "l2: expected 0 with descent = adaptive, found 0.1"),
        (
            {"combine": "off", "loss": "logistic", "descent": "plain", "l2": float("nan")},
            "l2: expected a number from 0 to 1000, found nan",
        ),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], expected: str) -> None:
    """By the option's name, with what was expected and found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**given)
    assert str(caught.value).startswith(expected)


def test_what_is_new_is_named_only_where_it_is_used() -> None:
    """A model's name is that of before, unless one of these changes it."""
    plain = Options(combine="off", loss="logistic")
    named = {"method", "loss", "bits", "alpha", "learning_rate", "max_features_per_example"}
    assert set(plain.identity()) == named
    theirs = Options(combine="off", loss="logistic", descent="plain", l2=0.1, selection="ssm")
    assert set(theirs.identity()) == {*named, "descent", "l2", "selection"}
