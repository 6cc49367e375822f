"""How the examples of a pass are used: which are only scored, and where epochs end."""

import itertools
import math
from typing import NamedTuple


class Schedule(NamedTuple):
    """How the examples are used.

    epochs         how many equal epochs the training examples are divided into
    doubling       if it is given, epochs end after doubling * 2^k examples instead (k = 0, 1, ...)
    test_fraction  share of the examples, at the end, that is only scored
    seed           of the shuffle
    ends           if it is given, in place of both: the numbers of training examples after which epochs end, ascending
    """

    epochs: int = 6
    doubling: int | None = None
    test_fraction: float = 0.2
    seed: int = 0
    keep_order: bool = False
    ends: tuple[int, ...] | None = None


def epoch_ends(examples: int, schedule: Schedule) -> list[int]:
    """Return the numbers of training examples after which epochs end; after the last, `examples`, nothing grows."""
    if schedule.ends is not None:
        return [*itertools.takewhile(lambda end: end < examples, schedule.ends), examples]
    if schedule.doubling is not None:
        first = schedule.doubling
        doubled = (first << k for k in itertools.count())
        return [*itertools.takewhile(lambda end: end < examples, doubled), examples]
    length = max(1, math.ceil(examples / schedule.epochs))
    return [*range(length, examples, length), examples]
