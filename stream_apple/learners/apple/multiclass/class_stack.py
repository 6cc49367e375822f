"""The stack of a mixture of classes: a linear predictor on the scores of the others, as in `kernels/mixture.py`.

Its score of a class is a weighted sum of the scores that linear, apple and average have for this class, with the same
weights for all classes. It learns from the log loss of its probabilities p, by Newton's method with forgetting. With
f[c] for the three scores of class c, the gradient is f[label] less the mean of f under p, and the matrix of second
derivatives is the covariance of f under p.
"""

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.mixture import KEEP, newton_step
from stream_apple.learners.apple.state.classes import (
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    CLASS_STACK,
    ClassWork,
)
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, LINEAR, PREDICTORS
from stream_apple.learners.apple.state.work import Mixing
from stream_apple.learners.loss_functions import softmax

CLASS_RIDGE = 16.0  # steps are small until some dozens of labels have come
_STACKED = (LINEAR, APPLE, AVERAGE)  # the predictors with a score for each class, in ascending order
_SCORES_OF = (CLASS_LINEAR, CLASS_EXPANDED, CLASS_AVERAGE)  # where each has its scores in `ClassWork`


@part
def stack_classes(mixture: Mixture, class_work: ClassWork, classes: int) -> bool:
    """Write the stack's scores and probabilities, from those of the predictors; return whether they are finite."""
    scores, stride = class_work.scores, len(class_work.rivals)
    first = CLASS_STACK * stride
    for c in range(classes):
        combined = 0.0
        for which in range(3):
            combined += mixture.stack[_STACKED[which]] * scores[_SCORES_OF[which] * stride + c]
        scores[first + c] = combined
    return bool(softmax(scores, class_work.probabilities, first, first + classes))


@part
def learn_class_stack(
    mixture: Mixture, class_work: ClassWork, mixing: Mixing, classes: int, label: int, importance: float
) -> None:
    """Update the stack from an example that `stack_classes` has scored; `mixing` is scratch."""
    scores, stride, curvature = class_work.scores, len(class_work.rivals), mixture.curvature
    chances, first = class_work.probabilities, CLASS_STACK * stride
    for i in range(PREDICTORS):
        mixing.vector[i] = 0.0
    for which in range(3):
        i, given, mean = _STACKED[which], _SCORES_OF[which] * stride, 0.0
        for c in range(classes):
            mean += chances[first + c] * scores[given + c]
        mixing.scores[i] = mean
        mixing.vector[i] = importance * (scores[given + label] - mean)
    for which in range(3):
        i, given = _STACKED[which], _SCORES_OF[which] * stride
        for other in range(which + 1):
            j, beside = _STACKED[other], _SCORES_OF[other] * stride
            covariance = 0.0
            for c in range(classes):
                beyond = scores[given + c] - mixing.scores[i]
                covariance += chances[first + c] * beyond * (scores[beside + c] - mixing.scores[j])
            curvature[i, j] = curvature[i, j] * KEEP + importance * covariance
    newton_step(mixture, mixing, CLASS_RIDGE)
