"""Everything that indexes arrays in the learner, run over small models: tables overflow, and epochs end often."""

from typing import Any

import numpy as np
from learners.apple.learned_digests import show
from learners.apple.merging.streams import EPOCHS, KINDS, SIZE, continued, examples, learned
from numpy.typing import NDArray
from support.bare_options import bare
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, routine
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores

DEFAULTS: tuple[Options, ...] = (
    Options(bits=8),
    Options(bits=8, loss="logistic"),
    Options(bits=8, loss="softmax", classes=3),
)
"""Models with all default options, as most workers have them."""

OTHERS: tuple[dict[str, Any], ...] = (
    {"method": "cubic"},
    {"ngrams": {"*": 3}},
    {"drift": "restart"},
    {"discretise": "spline"},
)
"""Options that no kind of merged model has."""


@routine
def _read(array: NDArray[np.int64], index: int) -> int:
    return int(array[index])


@kernel
def _read_in_kernel(array: NDArray[np.int64], index: int) -> int:
    return _read(array, index)


def exercise() -> None:
    """Learn, score, grow, restore, and merge with all kinds of options; IndexError if an index leaves its array."""
    try:
        _read_in_kernel(np.zeros(1, np.int64), 1)
    except IndexError:
        pass
    else:
        raise SystemExit("bounds are not checked")
    show()
    for options in DEFAULTS:
        _exercise(options)
    for kind in OTHERS:
        _exercise(bare(bits=8, **kind))
    for kind in KINDS:
        _merge(bare(bits=8, **kind))


def _exercise(options: Options) -> None:
    """One row at a time, in batches, and after a restart in the middle of an epoch."""
    batch = _with_spaces(examples(options, 0)) if options.ngrams else examples(options, 0)
    learner, scores = Learner(options), Scores.empty(SIZE)
    size = SIZE // EPOCHS
    for start in range(0, SIZE, size):
        middle = start + size // 2
        learner.learn(batch, start, middle, scores)
        learner = restored(learner)
        learner.learn(batch, middle, start + size, scores)
        learner.end_epoch()
    learner.predict(batch)
    learner.active_features(batch.select(np.arange(1)))
    learner.census()
    print(options.method, options.loss, learner.digest(), f"evicted={learner.evicted}", flush=True)


def _with_spaces(batch: Batch) -> Batch:
    """The first feature of each example is in a namespace of its own; the others are words."""
    spaces = np.full(len(batch.keys), 7, np.uint64)
    spaces[batch.indptr[:-1]] = 8
    return batch._replace(spaces=spaces)


def _merge(options: Options) -> None:
    """Two models learn apart, become one, and learn on; a third joins them late."""
    learners = [learned(options, seed, epochs=2) for seed in range(3)]
    merged = merge(learners[:2]).model
    for seed, learner in enumerate(learners):
        adopt(learner, merged)
        continued(learner, seed, (2, EPOCHS))
    print("merged", options.method, options.loss, [learner.digest() for learner in learners], flush=True)
