"""The latest examples: what parents cost and earn is measured on them, and they are learned again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, joined
from stream_apple.core.jit import copy_numbers, part
from stream_apple.learners.apple.state.model import Recent
from stream_apple.learners.apple.state.work import BaseFeatures

RECENT_FEATURES = 8192  # base features of each half
RECENT_EXAMPLES = 512  # of each half


def empty_recent(*, mixed: bool, roles: bool = False) -> Recent:
    """Return empty halves, of size 0 unless `mixed`.

    roles  whether features may have roles
    """
    halves = 2 if mixed else 0
    return Recent(
        keys=np.zeros((halves, RECENT_FEATURES), np.uint64),
        values=np.zeros((halves, RECENT_FEATURES), np.float32),
        roles=np.zeros((halves, RECENT_FEATURES if roles else 0), np.uint8),
        ends=np.zeros((halves, RECENT_EXAMPLES), np.int64),
        half=np.zeros(halves // 2, np.int64),
        counts=np.zeros(halves, np.int64),
        grown_at=np.zeros(halves // 2, np.int64),
        labels=np.zeros((halves, RECENT_EXAMPLES)),
        weights=np.zeros((halves, RECENT_EXAMPLES)),
    )


def longest_recent(recent: Recent) -> int:
    """Return the number of base features of the longest example that is kept."""
    longest = 0
    for ends, count in zip(recent.ends, recent.counts.tolist(), strict=True):
        longest = max(longest, int(np.diff(ends[:count], prepend=0).max(initial=0)))
    return longest


def first_of_half(recent: Recent, half: int, count: int) -> tuple[NDArray[Any], ...]:
    """Return the ends, keys, values and roles of the first `count` examples of a half, as views."""
    ends = recent.ends[half, :count]
    used = slice(int(ends[-1]) if count else 0)
    return ends, recent.keys[half, used], recent.values[half, used], recent.roles[half, used]


def recent_examples(recent: Recent) -> Batch:
    """Return the examples that are kept with their labels, the oldest first, in memory of their own."""
    halves, newer = [], int(recent.half[0])
    for half in (1 - newer, newer):
        count = int(recent.counts[half])
        ends, keys, values, roles = first_of_half(recent, half, count)
        labels, weights = recent.labels[half, :count], recent.weights[half, :count]
        halves.append(Batch(np.concatenate([[0], ends]), keys, values, labels, weights, roles=roles))
    return joined(halves)


def forget_recent(recent: Recent) -> None:
    """Forget all examples, but not when the model last grew."""
    recent.half[:] = 0
    recent.counts[:] = 0


@part
def recent_example(recent: Recent, half: int, first: int, stop: int) -> BaseFeatures:
    """Return the base features [first, stop) of a half as those of one example."""
    return BaseFeatures(recent.keys[half], recent.values[half], recent.roles[half], np.uint64(first), np.uint64(stop))


@part
def recent_place(half: int, number: int) -> int:
    """Return the number of an example among those of both halves, given its number in its half."""
    return half * RECENT_EXAMPLES + number


@part
def keep_recent(recent: Recent, example: BaseFeatures, label: float, importance: float) -> None:
    """Keep the example, unless it alone is too long; when the half in use is full, the older one is overwritten."""
    size = np.int64(example.stop - example.first)
    if size > RECENT_FEATURES:
        return
    half = recent.half[0]
    count = recent.counts[half]
    used = recent.ends[half, count - 1] if count > 0 else 0
    if count == RECENT_EXAMPLES or used + size > RECENT_FEATURES:
        half = 1 - half
        recent.half[0] = half
        count = used = 0
    copy_numbers(example.keys, example.first, recent.keys[half], used, size)
    copy_numbers(example.values, example.first, recent.values[half], used, size)
    roles = recent.roles[half]
    if len(roles) > 0:
        if len(example.roles) > 0:
            copy_numbers(example.roles, example.first, roles, used, size)
        else:
            for f in range(size):
                roles[used + f] = np.uint8(0)
    recent.ends[half, count] = used + size
    recent.labels[half, count] = label
    recent.weights[half, count] = importance
    recent.counts[half] = count + 1
