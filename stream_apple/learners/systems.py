"""The three systems that learn, by name: new learners, merging, and kernels compiled beforehand."""

from importlib import import_module

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.ngrams import NgramSizes, ngram_sizes
from stream_apple.errors import ConfigurationError
from stream_apple.learners.merging_port import Merging
from stream_apple.learners.port import Learner, LearnerOptions
from stream_apple.learners.scores import Scores

_CLASSES = {
    "apple": "apple.learner:Learner",
    "tuples": "tuples.learner:TupleLearner",
    "hashed": "hashed.learner:HashedLearner",
}
"""Where the learner of each system is: only that of the wanted system is imported."""
_EXAMPLES = 1_200  # enough for each system to make cuts, to grow, and to select
_EPOCHS = 3


def new_learner(options: LearnerOptions) -> Learner:
    """Return a learner of the options' system that has learned nothing."""
    module, _, name = _CLASSES[options.system].partition(":")
    learner: Learner = getattr(import_module(f"stream_apple.learners.{module}"), name)(options)
    return learner


def merging_of(options: LearnerOptions) -> Merging:
    """Return how models of the options' system are merged; ConfigurationError for a system whose models are not."""
    if options.system != "apple":
        raise ConfigurationError(f"merging models: {options.why_not_merged}")
    from stream_apple.learners.apple.merging import merge  # a worker that merges nothing does not load it

    merging: Merging = merge
    return merging


def ngrams_of(options: LearnerOptions) -> NgramSizes:
    """Return the sizes of n-grams that are features too."""
    return ngram_sizes(*options.ngrams_of_namespaces())


def warm_up_learning(options: LearnerOptions) -> None:
    """Compile every kernel of a learner with these options (once per machine): a small one learns a made-up stream."""
    trial, batch = new_learner(options.smallest()), _made_up_batch(options)
    size = len(batch.labels)
    for _ in range(_EPOCHS):
        trial.learn(batch, 0, size, Scores.empty(size))
        trial.end_epoch()
    trial.score_rows(batch, 0, size, Scores.empty(size))
    trial.digest()
    trial.find(1)


def _made_up_batch(options: LearnerOptions) -> Batch:
    """Return examples of two numbers and a category, with the columns and labels that such a learner needs."""
    columns = options.wanted_columns()
    features = 3
    draw = np.random.default_rng(0)
    keys = np.tile(np.arange(1, features + 1, dtype=np.uint64), _EXAMPLES)
    keys[2::features] += draw.integers(0, 4, _EXAMPLES).astype(np.uint64)
    values = draw.uniform(-1, 1, len(keys)).astype(np.float32)
    values[2::features] = 1.0
    # A batch has -1 and 1 for two labels, and the numbers of classes.
    labels = np.where(values[::features] > 0.0, 1.0, 0.0 if options.classes else -1.0)
    batch = Batch(np.arange(0, len(keys) + 1, features), keys, values, labels, np.ones(_EXAMPLES))
    return batch._replace(
        spaces=np.ones(len(keys) if "spaces" in columns else 0, np.uint64),
        attributes=np.tile(np.arange(1, 4, dtype=np.uint64), _EXAMPLES if "attributes" in columns else 0),
    )
