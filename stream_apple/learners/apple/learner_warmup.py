"""Compiles the kernels of a learner, by having a small one learn a made-up stream."""

from dataclasses import replace

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.growth import FEWEST_EXAMPLES
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import BITS, Options
from stream_apple.learners.scores import Scores

_EPOCHS = 3  # after so many, parents were appraised


def warm_up_learning(options: Options) -> None:
    """Compile every kernel of a learner with these options (once per machine)."""
    trial = Learner(replace(options, bits=BITS.low))  # the size of the table changes no code
    batch = _made_up_batch(options.wanted_columns())
    for _ in range(_EPOCHS):
        trial.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
        trial.end_epoch()
    trial.predict(batch)
    trial.slots()


def _made_up_batch(columns: frozenset[str]) -> Batch:
    """Return examples of two numbers and a category, enough for a model to grow, with the further `columns`."""
    examples, features = FEWEST_EXAMPLES, 3
    draw = np.random.default_rng(0)
    keys = np.tile(np.arange(1, features + 1, dtype=np.uint64), examples)
    keys[2::features] += draw.integers(0, 4, examples).astype(np.uint64)
    values = draw.uniform(-1, 1, len(keys)).astype(np.float32)
    values[2::features] = 1.0
    labels = (values[::features] > 0.0).astype(np.float64)
    batch = Batch(np.arange(0, len(keys) + 1, features), keys, values, labels, np.ones(examples))
    return batch._replace(spaces=np.ones(len(keys) if "spaces" in columns else 0, np.uint64))
