"""The options of a learner: what each may be, and that nothing heavy comes with them."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.learners.apple.options import Options, parse_ngrams
from stream_apple.learners.apple.options.declared_options import DECLARED, FIRST


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
        ("early_growth", True, "an integer from 0 to 1000000000"),
        ("learning_rate", "0.5", "a number above 0 and at most 1000"),
        ("centre", "0", "an integer from 0 to 10000"),
        ("fallback", "yes", "True or False"),
        ("discretise_namespaces", ["a"], "names with commas between, and no white space"),
        ("method", None, "one of apple, linear, quadratic, cubic"),
    ],
)
def test_options_are_checked(field: str, value: object, expected: str) -> None:
    """A wrong option, also one of another type, names itself, what was expected and what was found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Options(**{field: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"{field}: expected {expected}, found {value!r}"


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        ({"discretise": "deciles"}, "discretise: expected one of none, quantile, mdl, auto, spline, found 'deciles'"),
        ({"discretise": "none", "bins": 8}, "bins: expected 12 with discretise = none, found 8"),
        ({"discretise": "none", "reservoir": 100}, "reservoir: expected 500 with discretise = none, found 100"),
        (
            {"discretise": "none", "discretise_namespaces": "a"},
            "discretise_namespaces: expected '' with discretise = none, found 'a'",
        ),
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
    assert str(caught.value) == fault


def test_what_the_first_version_did_is_in_no_name() -> None:
    """Its models are named by the options that it had; today's defaults are named where they are others."""
    first = FIRST | {"pending_labels": Options.pending_labels}  # with which they go on, as nothing depends on it
    assert Options(**first).identity().keys() == DECLARED.keys() - FIRST.keys()  # type: ignore[arg-type]
    assert Options().identity().keys() & FIRST.keys() == {
        "combine",
        "parents",
        "selection",
        "product_budget",
        "budget_per_feature",
        "max_degree",
        "votes",
        "shrinkage",
        "stack_loss",
        "early_growth",
        "rehearsal",
        "label_units",
        "drift",
        "discretise",
        "centre",
        "bins",
        "reservoir",
        "pending_labels",
    }


def test_discretisation_names_a_model() -> None:
    """Models of before keep their name; each choice makes another, and what is left out is as if it were given."""
    plain = Options(discretise="none").identity()
    assert not plain.keys() & {"discretise", "bins", "reservoir", "discretise_namespaces"}
    names = [Options(**chosen).identity() for chosen in (
        {"discretise": "none"}, {"discretise": "quantile"}, {"discretise": "mdl"}, {"discretise": "auto"},
        {"discretise": "spline"},
        {"discretise": "quantile", "bins": 6}, {"discretise": "auto", "bins": 12},
        {"discretise": "auto", "reservoir": 100}, {"discretise": "auto", "discretise_namespaces": "a"},
    )]  # fmt: skip
    assert all(names.count(name) == 1 for name in names)
    assert Options() == Options(discretise="spline", bins=6, reservoir=40, centre=5)
    assert Options(discretise="auto") == Options(discretise="auto", bins=6, reservoir=50, centre=5)
    first = {"discretise": "auto", "centre": 0, "budget_per_feature": 0.0}
    assert bare(discretise="auto") == bare(discretise="auto", centre=0, bins=6, reservoir=150, product_budget=500)
    assert Options(**first).product_budget == 500  # type: ignore[arg-type]
    assert Options(product_budget=600).budget_per_feature == 0.0  # who asks for a budget means it
    assert Options(discretise="quantile") == Options(discretise="quantile", bins=12, reservoir=500)
    assert Options(discretise="auto").identity()["reservoir"] == 50
    assert "reservoir" not in Options(discretise="auto", reservoir=500).identity()  # named as it was
    assert Options(discretise="auto").model_bytes() > Options(discretise="none").model_bytes()


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
    chosen = Options(bits=np.int64(10), alpha=np.float32(0.5), fallback=np.True_, ngrams={"text": np.int8(2)})  # type: ignore[arg-type, dict-item]
    assert chosen == Options(bits=10, alpha=0.5, fallback=True, ngrams={"text": 2})
    assert Options(centre=np.int64(7)).centre == 7  # type: ignore[arg-type]


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
    """Off, they are in no name; equal ones are equal however they are written; those of a namespace named key are."""
    assert "ngrams" not in Options().identity()
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
