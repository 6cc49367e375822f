"""A random split of a set: the learner after one pass over the training part, and its error on the rest."""

from collections.abc import Iterator

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.offline.evaluation import split
from stream_apple.offline.schedule import Schedule


def learn_once(trained: Batch, options: Options) -> Learner:
    """Return the learner after these examples, in one epoch."""
    learner = Learner(options)
    learner.learn(trained, 0, len(trained.labels), Scores.empty(len(trained.labels)))
    return learner


def learned_splits(batch: Batch, options: Options, seeds: int) -> Iterator[tuple[Learner, float]]:
    """Yield, for each seed, the learner after the training part, and its error on the rest."""
    for seed in range(seeds):
        trained, tested = split(batch, Schedule(seed=seed))
        learner = learn_once(trained, options)
        # The share of log-odds that are on the wrong side, for labels -1 and 1.
        yield learner, float(((learner.predict(tested) > 0.0) != (tested.labels > 0.0)).mean())
