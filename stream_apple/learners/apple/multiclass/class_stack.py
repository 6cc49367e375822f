"""The stack of a mixture of classes: a linear predictor on the scores of the others, as in `kernels/mixture.py`.

Its score of a class is a weighted sum of the scores that linear, apple and average have for this class, with the same
weights for all classes. It learns from the log loss of its probabilities p, by Newton's method with forgetting. With
f[c] for the three scores of class c, the gradient is f[label] less the mean of f under p, and the matrix of second
derivatives is the covariance of f under p. `class_persistence.py` combines three other scores in the same way.
"""

from typing import NamedTuple

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.mixture import KEEP, NEWTON_VECTOR, newton_step
from stream_apple.learners.apple.multiclass.layout import (
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    CLASS_STACK,
    ClassWork,
)
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Numbers64
from stream_apple.learners.losses import softmax

CLASS_RIDGE = 16.0  # steps are small until some dozens of labels have come


class Combination(NamedTuple):
    """Three scores that are combined.

    places   the place of each one's weight, in ascending order
    given    where it has its scores among those of `ClassWork`
    made     where the combined scores are
    """

    places: tuple[int, int, int]
    given: tuple[int, int, int]
    made: int


STACKED = Combination((LINEAR, APPLE, AVERAGE), (CLASS_LINEAR, CLASS_EXPANDED, CLASS_AVERAGE), CLASS_STACK)


@part
def stack_classes(mixture: Mixture, class_work: ClassWork, classes: int) -> bool:
    """Write the stack's scores and probabilities, from those of the predictors; return whether they are finite."""
    return bool(combine_classes(STACKED, mixture.stack, class_work, classes))


@part
def learn_class_stack(
    mixture: Mixture, class_work: ClassWork, mixing: Numbers64, classes: int, label: int, importance: float
) -> None:
    """Update the stack from an example that `stack_classes` has scored; `mixing` is scratch, float64[MIXING]."""
    learn_combination(
        STACKED, mixture.stack, mixture.curvature, PREDICTORS, class_work, mixing, classes, label, importance
    )


@part
def combine_classes(combination: Combination, weights: Numbers64, class_work: ClassWork, classes: int) -> bool:
    """Write the combined scores and their probabilities; return whether they are finite."""
    scores, stride = class_work.scores, len(class_work.rivals)
    first = combination.made * stride
    for c in range(classes):
        combined = 0.0
        for which in range(3):
            combined += weights[combination.places[which]] * scores[combination.given[which] * stride + c]
        scores[first + c] = combined
    return bool(softmax(scores, class_work.probabilities, first, first + classes))


@part
def learn_combination(
    combination: Combination, weights: Numbers64, curvature: Numbers64, size: int, class_work: ClassWork,
    mixing: Numbers64, classes: int, label: int, importance: float,
) -> None:  # fmt: skip
    """Update the weights, of which there are `size`, from an example that `combine_classes` has scored.

    curvature  float64[size * size], of which the lower half is kept
    mixing     scratch, float64[MIXING]
    """
    scores, stride = class_work.scores, len(class_work.rivals)
    chances, first = class_work.probabilities, combination.made * stride
    for i in range(size):
        mixing[i] = mixing[NEWTON_VECTOR + i] = 0.0
    for which in range(3):
        i, given, mean = combination.places[which], combination.given[which] * stride, 0.0
        for c in range(classes):
            mean += chances[first + c] * scores[given + c]
        mixing[i] = mean
        mixing[NEWTON_VECTOR + i] = importance * (scores[given + label] - mean)
    for which in range(3):
        i, given = combination.places[which], combination.given[which] * stride
        for other in range(which + 1):
            j, beside = combination.places[other], combination.given[other] * stride
            covariance = 0.0
            for c in range(classes):
                beyond = scores[given + c] - mixing[i]
                covariance += chances[first + c] * beyond * (scores[beside + c] - mixing[j])
            at = i * size + j
            curvature[at] = curvature[at] * KEEP + importance * covariance
    newton_step(weights, curvature, mixing, size, CLASS_RIDGE)
