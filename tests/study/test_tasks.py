"""What names a run."""

from typing import Any

import pytest

from stream_apple.learners.apple.options import Options
from study.methods import METHODS, StudyMethod
from study.runs.campaign import Contender, contenders
from study.settings import StudySettings
from study.tasks import LossesSoFar, Measures, Task

TASK = Task("error", "a9a", "apple-plain", 0.5, 0.2, 1, 6, 18, "squared")
VERSIONS = {"core": "1"}


def test_a_task_gives_the_options() -> None:
    """Its own, and its method's."""
    options = TASK.options()
    assert (options.method, options.alpha, options.learning_rate, options.bits) == ("apple", 0.5, 0.2, 18)


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "timing"}, {"data_set": "b"}, {"method": "linear"}, {"alpha": 1.0}, {"rate": 0.5}, {"seed": 2},
        {"epochs": 50}, {"bits": 19}, {"loss": "logistic"},
    ],
)  # fmt: skip
def test_the_key_tells_runs_apart(change: dict[str, Any]) -> None:
    """Each field, the data and the versions count."""
    key = TASK.key("d", VERSIONS)
    assert TASK.key("d", VERSIONS) == key
    assert TASK._replace(**change).key("d", VERSIONS) != key
    assert TASK.key("e", VERSIONS) != key != TASK.key("d", {"core": "2"})


def test_the_key_knows_what_the_method_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means other options is another run."""
    before = TASK.key("d", VERSIONS)
    monkeypatch.setitem(METHODS, "apple-plain", StudyMethod({"method": "quadratic"}, grid=True, grows=True))
    assert TASK.key("d", VERSIONS) != before


def test_a_method_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is run with each alpha and number of epochs, if it has a grid and grows; once if not."""
    monkeypatch.setitem(METHODS, "small", StudyMethod({"method": "apple", "max_features_per_example": 50}, grows=True))
    assert TASK._replace(method="small", alpha=None).options().max_features_per_example == 50
    settings = StudySettings(("linear", "apple-plain", "small"), alphas=(0.5, 1.0), epochs=(6, 50))
    assert contenders(settings) == [
        Contender("linear", None, 0),
        *(Contender("apple-plain", alpha, epochs) for epochs in (6, 50) for alpha in (0.5, 1.0)),
        Contender("small", None, 6),
        Contender("small", None, 50),
    ]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("apple", (True, "weight", False)),
        ("apple-plain", (False, "weight", False)),
        ("ssm", (False, "ssm", False)),
        ("apple-fallback", (False, "weight", True)),
        ("linear", (False, "weight", False)),
        ("quadratic", (False, "weight", False)),
        ("cubic", (False, "weight", False)),
    ],
)
def test_methods_are_the_papers_and_the_products(method: str, expected: tuple[bool, str, bool]) -> None:
    """The baselines learn as the paper's do; the product's apple is its default, for files as for streams."""
    bits = METHODS[method].bits
    options = TASK._replace(method=method, bits=bits, alpha=0.5 if METHODS[method].grid else None).options()
    assert (options.mixed, options.selection, options.fallback) == expected
    assert METHODS[method].default == (method != "apple-fallback")
    assert bits == Options(method=options.method).bits


def test_measures_survive_json() -> None:
    """With the ends of epochs."""
    measures = Measures(0.1, 0.2, 0.3, None, 5.0, 7, 1.5, (LossesSoFar(10, 0.4, None), LossesSoFar(20, 0.3, 0.5)))
    assert Measures.from_json(measures.to_json()) == measures
    assert (measures.error("regression"), measures.error("binary")) == (0.3, None)
