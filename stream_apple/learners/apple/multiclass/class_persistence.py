"""Classes that persist: what `kernels/persistence.py` does, for k classes.

One more predictor combines three scores of each class, with the same weights for all classes, as the stack does
(`class_stack.py`): the logarithm of its probability by the mixture, 1 for the latest label, and the latest misses of
that probability. What it makes of them is mixed with the mixture by Bayes' rule, as in `process.py`.
"""

import math

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.persistence import INPUTS, KEPT, LABEL, learn_share
from stream_apple.learners.apple.multiclass.class_stack import Combination, combine_classes, learn_combination
from stream_apple.learners.apple.multiclass.layout import (
    CLASS_FOLLOWING,
    CLASS_LATEST,
    CLASS_MISSES,
    CLASS_MIXED,
    ClassWork,
)
from stream_apple.learners.apple.state.model import Persistence
from stream_apple.learners.apple.state.work import Numbers64

FOLLOWED = Combination((0, 1, 2), (CLASS_MIXED, CLASS_LATEST, CLASS_MISSES), CLASS_FOLLOWING)


@part
def follow_latest_class(persistence: Persistence, class_work: ClassWork, classes: int) -> bool:
    """Write to `followed` what is published, given the mixture's probabilities; return whether all are finite."""
    scores, stride, latest = class_work.scores, len(class_work.rivals), persistence.latest
    for c in range(classes):
        scores[CLASS_MIXED * stride + c] = math.log(class_work.published[c])
        scores[CLASS_LATEST * stride + c] = 1.0 if latest[LABEL] == c else 0.0
        scores[CLASS_MISSES * stride + c] = latest[1 + c]
    finite = combine_classes(FOLLOWED, persistence.weights, class_work, classes)
    share, first = persistence.share[0], CLASS_FOLLOWING * stride
    for c in range(classes):
        mixed = (1.0 - share) * class_work.published[c] + share * class_work.probabilities[first + c]
        class_work.followed[c] = min(mixed, 1.0)
    return bool(finite)


@part
def learn_class_persistence(
    persistence: Persistence, class_work: ClassWork, mixing: Numbers64, classes: int, label: int, importance: float,
    heaviest: float,
) -> None:  # fmt: skip
    """Update share and weights from an example that `follow_latest_class` has scored; keep its label.

    heaviest  the largest importance weight so far
    """
    chance = class_work.probabilities[CLASS_FOLLOWING * len(class_work.rivals) + label]
    learn_share(persistence, (importance / heaviest) * (math.log(class_work.published[label]) - math.log(chance)))
    learn_combination(
        FOLLOWED, persistence.weights, persistence.curvature, INPUTS, class_work, mixing, classes, label, importance
    )
    latest = persistence.latest
    latest[LABEL] = label
    for c in range(classes):
        miss = (1.0 if c == label else 0.0) - class_work.published[c]
        latest[1 + c] = KEPT * latest[1 + c] + (1.0 - KEPT) * miss
