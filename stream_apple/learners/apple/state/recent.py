"""The latest examples: what parents cost and earn is measured on them, and they are learned again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, joined
from stream_apple.core.jit import copy_numbers, part
from stream_apple.learners.apple.state.model import GROWN_AT, Recent
from stream_apple.learners.apple.state.work import BaseFeatures

RECENT_FEATURES = 8192  # base features of each half
RECENT_EXAMPLES = 512  # of each half


def empty_recent(*, mixed: bool, roles: bool = False, labels: bool = False) -> Recent:
    """Return empty halves, of size 0 unless `mixed`.

    roles   whether features may have roles
    labels  whether labels and importance weights are kept, too
    """
    features, examples = (2 * RECENT_FEATURES, 2 * RECENT_EXAMPLES) if mixed else (0, 0)
    return Recent(
        np.zeros(features, np.uint64),
        np.zeros(features, np.float32),
        np.zeros(features if roles else 0, np.uint8),
        np.zeros(examples, np.int64),
        np.zeros(4 if mixed else 0, np.int64),
        np.zeros(examples if labels else 0),
        np.zeros(examples if labels else 0),
    )


def longest_recent(recent: Recent) -> int:
    """Return the number of base features of the longest example that is kept."""
    longest = 0
    for half, count in enumerate(recent.filled[1:3].tolist()):
        ends = recent.ends[half * RECENT_EXAMPLES :][:count]
        longest = max(longest, int(np.diff(ends, prepend=0).max(initial=0)))
    return longest


def first_of_half(recent: Recent, half: int, count: int) -> tuple[NDArray[Any], ...]:
    """Return the ends, keys, values and roles of the first `count` examples of a half, as views."""
    ends = recent.ends[half * RECENT_EXAMPLES :][:count]
    used = slice(half * RECENT_FEATURES, half * RECENT_FEATURES + (int(ends[-1]) if count else 0))
    return ends, recent.keys[used], recent.values[used], recent.roles[used]


def recent_examples(recent: Recent) -> Batch:
    """Return the examples that are kept with their labels, the oldest first, in memory of their own."""
    halves = []
    for half in (1 - int(recent.filled[0]), int(recent.filled[0])):
        count = int(recent.filled[1 + half])
        examples = slice(half * RECENT_EXAMPLES, half * RECENT_EXAMPLES + count)
        ends, keys, values, roles = first_of_half(recent, half, count)
        indptr = np.concatenate([[0], ends])
        halves.append(Batch(indptr, keys, values, recent.labels[examples], recent.weights[examples], roles=roles))
    return joined(halves)


def forget_recent(recent: Recent) -> None:
    """Forget all examples, but not when the model last grew."""
    recent.filled[:GROWN_AT] = 0


@part
def keep_recent(recent: Recent, example: BaseFeatures, label: float, importance: float) -> None:
    """Keep the example, unless it alone is too long; when the half in use is full, the older one is overwritten."""
    size = np.int64(example.stop - example.first)
    if size > RECENT_FEATURES:
        return
    half = recent.filled[0]
    count = recent.filled[1 + half]
    used = recent.ends[half * RECENT_EXAMPLES + count - 1] if count > 0 else 0
    if count == RECENT_EXAMPLES or used + size > RECENT_FEATURES:
        half = 1 - half
        recent.filled[0] = half
        count = used = 0
    to = half * RECENT_FEATURES + used
    copy_numbers(example.keys, example.first, recent.keys, to, size)
    copy_numbers(example.values, example.first, recent.values, to, size)
    if len(recent.roles) > 0:
        if len(example.roles) > 0:
            copy_numbers(example.roles, example.first, recent.roles, to, size)
        else:
            for f in range(size):
                recent.roles[to + f] = np.uint8(0)
    recent.ends[half * RECENT_EXAMPLES + count] = used + size
    if len(recent.labels) > 0:
        recent.labels[half * RECENT_EXAMPLES + count] = label
        recent.weights[half * RECENT_EXAMPLES + count] = importance
    recent.filled[1 + half] = count + 1
