"""Every experiment that is named can be loaded, and says what it is made for."""

from importlib import import_module
from pathlib import Path

import pytest

from stream_apple.errors import ConfigurationError
from study.data_sets import DataSet
from study.experiments import registry
from study.experiments.experiment import Experiment

FOUND = {name: DataSet(name, Path(f"{name}.svm")) for name in ("a", "b", "c")}


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_each_is_a_module(name: str) -> None:
    """Of its name; its packages are those of the extra."""
    experiment = import_module(f"{registry.__package__}.{name}").EXPERIMENT
    assert set(experiment.requires) <= {"sklearn", "river", "vowpalwabbit", "matplotlib"}
    for package in experiment.requires:
        pytest.importorskip(package)
    assert registry.load_experiment(name) is experiment


def test_an_experiment_gets_the_sets_it_is_made_for() -> None:
    """In its order, those that are there; none at all is a mistake, unless it needs none."""
    experiment = Experiment(lambda _: iter(()), ("c", "z", "a"))
    assert list(registry.sets_of(experiment, FOUND)) == ["c", "a"]
    assert registry.sets_of(experiment._replace(sets=()), FOUND) == {}
    with pytest.raises(ConfigurationError, match=r"made for \(y, z\).*found a, b, c"):
        registry.sets_of(experiment._replace(sets=("y", "z")), FOUND)
