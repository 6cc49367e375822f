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
        ({"selection": "ssm"}, "selection: expected weight with mixture = true, found 'ssm'"),
        ({"alpha": 0.5}, "alpha: expected 1 with mixture = true, found 0.5"),
        ({"loss": "logistic", "steps": "theorem1"}, "steps: expected adaptive with mixture = true, found 'theorem1'"),
        ({"mixture": False, "steps": "theorem1"}, "steps: expected adaptive with loss squared, found 'theorem1'"),
        ({"steps": "steep"}, "steps: expected one of adaptive, theorem1, found 'steep'"),
        ({"mixture": False, "theorem1_lambda": 0.0}, "theorem1_lambda: expected a number above 0 and at most 1000"),
        (
            {"mixture": False, "loss": "logistic", "theorem1_lambda": float("nan")},
            "theorem1_lambda: expected a number above 0 and at most 1000, found nan",
        ),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], expected: str) -> None:
    """By the option's name, with what was expected and found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**given)
    assert str(caught.value).startswith(expected)
