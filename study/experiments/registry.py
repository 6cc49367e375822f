"""The experiments, a line each: to add one is to add a line, and a module of that name here that has `EXPERIMENT`."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from stream_apple.errors import ConfigurationError
from study.data_sets import DataSet
from study.experiments.experiment import Experiment

EXPERIMENTS: Mapping[str, str] = MappingProxyType(
    {
        "tuples": "pairs and triples of attributes, all and the best share, the product, and a random forest",
        "categories": "where tuples of categories are worth it: planted streams, drifting and stationary",
        "regularization": "what L2 and L1 do to the error of a linear model, and to its size",
        "hashing": "features that share weights, and features that keep their identity, by the size of the table",
        "personal": "weights of users in addition to shared ones: spam not caught, with planted users",
        "parallel": "several learners that become one model: Table 1's protocol, and a planted stream",
        "defaults": "what each default of the product is worth, on sets of many kinds",
        "forest": "the default and River's adaptive random forest, on the same sets",
        "streaming": "what is learned from the first 8,000 examples: River, Vowpal Wabbit, and the product",
    }
)
"""Name -> what it shows, in a line."""


def load_experiment(name: str) -> Experiment:
    """Return the experiment of that name; ConfigurationError if a package that it requires is not installed."""
    module = import_module(f"study.experiments.{name}")
    experiment = module.EXPERIMENT
    if not isinstance(experiment, Experiment):
        raise TypeError(f"{module.__name__}: expected EXPERIMENT to be an Experiment, found {experiment!r}")
    if missing := [package for package in experiment.requires if find_spec(package) is None]:
        raise ConfigurationError(
            f"--experiment {name}: expected {', '.join(missing)} to be installed, found none: "
            "pip install --editable '.[study]'"
        )
    return experiment


def sets_of(experiment: Experiment, found: Mapping[str, DataSet]) -> dict[str, DataSet]:
    """Return the data sets that the experiment is made for; ConfigurationError if there are none."""
    chosen = {name: found[name] for name in experiment.sets if name in found}
    if experiment.sets and not chosen:
        raise ConfigurationError(
            f"expected a data set that the experiment is made for ({', '.join(experiment.sets)}), or some named by "
            f"--sets, found {', '.join(found)}"
        )
    return chosen
