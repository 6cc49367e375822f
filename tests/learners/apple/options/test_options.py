"""The options of a learner: what each may be, and that nothing heavy comes with them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from stream_apple.learners.apple.options import Options, parse_ngrams
from stream_apple.learners.apple.options.declared_options import DECLARED


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("method", "sextic", "one of apple, linear, quadratic, cubic"),
        ("loss", "hinge", "one of squared, logistic, softmax"),
        ("bits", 7, "an integer from 8 to 30"),
        ("bits", 31, "an integer from 8 to 30"),
        ("alpha", 0.0, "a number above 0 and at most 2"),
        ("alpha", 2.01, "a number above 0 and at most 2"),
        ("learning_rate", 0.0, "a number above 0 and at most 1000"),
        ("learning_rate", float("inf"), "a number above 0 and at most 1000"),
        ("learning_rate", float("nan"), "a number above 0 and at most 1000"),
        ("max_features_per_example", 1, "an integer from 2 to 16777216"),
        ("bits", 18.0, "an integer from 8 to 30"),
        ("bits", "18", "an integer from 8 to 30"),
        ("max_products", True, "an integer from 1 to 16777216"),
        ("mixture", "off", "True or False"),
        ("learning_rate", "0.5", "a number above 0 and at most 1000"),
        ("fallback", "yes", "True or False"),
        ("method", None, "one of apple, linear, quadratic, cubic"),
    ],
)
def test_options_are_checked(field: str, value: object, expected: str) -> None:
    """A wrong option, also one of another type, names itself, what was expected and what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**{field: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"{field}: expected {expected}, found {value!r}"


def test_a_choice_that_there_is_not() -> None:
    """The error names the others."""
    with pytest.raises(ValueError, match="discretise: expected one of none, spline, found 'deciles'"):
        Options(discretise="deciles")  # type: ignore[arg-type]


def test_every_option_names_a_model() -> None:
    """Also those that are as by default; what follows from others is as if it were given."""
    assert Options().identity().keys() == {"system", *DECLARED}
    assert Options() == Options(mixture=True, mergeable=False, drift="restart", max_degree=4, discretise="spline")
    assert Options(mixture=False) == Options(mixture=False, mergeable=True, drift="ignore", max_degree=250)
    assert Options(mergeable=True) == Options(mergeable=True, drift="ignore")
    assert Options(discretise="spline").model_bytes() > Options(discretise="none").model_bytes()


def test_nothing_heavy_is_imported() -> None:
    """The configuration imports the options: neither may delay a worker's start."""
    code = (
        "import sys, stream_apple.config, stream_apple.learners.apple.options\n"
        "heavy = {'numpy', 'numba', 'xxhash'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_numbers_of_numpy_are_numbers() -> None:
    """As a search over parameters gives them."""
    given: dict[str, Any] = {"bits": np.int64(10), "mixture": np.False_, "alpha": np.float32(0.5)}
    chosen = Options(**given, fallback=np.True_, ngrams={"text": np.int8(2)})  # type: ignore[arg-type, dict-item]
    assert chosen == Options(bits=10, mixture=False, alpha=0.5, fallback=True, ngrams={"text": 2})


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        ({"ngrams": {"text": 6}}, "an integer from 2 to 5 for 'text', found 6"),
        ({"ngrams": {"text": 1}}, "an integer from 2 to 5 for 'text', found 1"),
        ({"ngrams": {"*": 1}}, "an integer from 2 to 5 for '*', found 1"),
        ({"ngrams": {"*": 2, "text": 0}}, "an integer from 1 to 5 for 'text', found 0"),
        ({"ngrams": {"text": "2"}}, "an integer from 2 to 5 for 'text', found '2'"),
        ({"ngrams": {"text": 2.0}}, "an integer from 2 to 5 for 'text', found 2.0"),
        ({"ngrams": {3: 2}}, "an integer from 2 to 5 for 3, found 2"),
        ({"ngrams": "text=2"}, "namespaces and numbers, as in {'text': 2}, found 'text=2'"),
        ({"ngrams": 2}, "namespaces and numbers, as in {'text': 2}, found 2"),
    ],
    ids=str,
)
def test_ngrams_are_checked(chosen: dict[str, Any], fault: str) -> None:
    """What is out of bounds, or contradicts another option, is refused by name."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**chosen)
    assert str(caught.value) == f"ngrams: expected {fault}"


def test_what_ngrams_name() -> None:
    """Equal ones are equal however they are written."""
    assert Options().identity()["ngrams"] == {}
    assert Options().longest_ngram == 1
    assert Options(ngrams={"b": 3, "a": 2}) == Options(ngrams=(("a", 2), ("b", 3)))
    assert Options(ngrams={"*": 2, "a": 2}) == Options(ngrams={"*": 2})
    assert Options(ngrams={"*": 2, "a": 1}).identity()["ngrams"] == {"*": 2, "a": 1}
    assert Options(ngrams={"*": 2, "a": 3}).longest_ngram == 3
    assert Options(ngrams={"a": 2}).wanted_columns() == {"spaces"}
    assert Options(ngrams={"a": 2}).model_bytes() > Options().model_bytes()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("text=2", {"text": 2}),
        (" text = 2, title=3", {"text": 2, "title": 3}),
        ('{ text = 2, "a=b" = 3 }', {"text": 2, "a=b": 3}),
        ("=2", {"": 2}),
        ("{}", {}),
    ],
)
def test_ngrams_may_be_typed(text: str, found: dict[str, int]) -> None:
    """Or stand in the environment."""
    assert parse_ngrams(text) == found


@pytest.mark.parametrize("text", ["text", "text=", "text=two", "text=-2", "text=2,,title=3", "a=2,a=3", "2.5", "a=2.5"])
def test_what_is_no_ngrams(text: str) -> None:
    """It is refused with an example."""
    with pytest.raises(ValueError, match=r"expected namespaces and numbers as in 'text=2,title=3', found "):
        parse_ngrams(text)
