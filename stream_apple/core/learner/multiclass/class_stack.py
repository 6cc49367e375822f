"""The stack of a mixture of classes: a linear predictor on the scores of the others, as in `kernels/mixture.py`.

Its score of a class is a weighted sum of the scores that linear, apple and average have for this class, with the same
weights for all classes. It learns from the log loss of its probabilities p, by Newton's method with forgetting. With
f[c] for the three scores of class c, the gradient is f[label] less the mean of f under p, and the matrix of second
derivatives is the covariance of f under p.
"""

from stream_apple.core.jit import part
from stream_apple.core.learner.kernels.losses import softmax
from stream_apple.core.learner.kernels.mixture import KEEP, NEWTON_VECTOR, newton_step
from stream_apple.core.learner.multiclass.layout import (
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    CLASS_STACK,
    ClassWork,
)
from stream_apple.core.learner.state.model import Mixture
from stream_apple.core.learner.state.weights import APPLE, AVERAGE, LINEAR, PREDICTORS
from stream_apple.core.learner.state.work import Numbers64

CLASS_RIDGE = 16.0  # steps are small until some dozens of labels have come


@part
def stack_classes(mixture: Mixture, class_work: ClassWork, classes: int) -> bool:
    """Write the stack's scores and probabilities, from those of the predictors; return whether they are finite."""
    scores, stride = class_work.scores, len(class_work.rivals)
    for c in range(classes):
        stacked = 0.0
        for which in range(3):
            stacked += mixture.stack[_predictor(which)] * _score(class_work, which, c)
        scores[CLASS_STACK * stride + c] = stacked
    first = CLASS_STACK * stride
    return bool(softmax(scores, class_work.probabilities, first, first + classes))


@part
def learn_class_stack(
    mixture: Mixture, class_work: ClassWork, mixing: Numbers64, classes: int, label: int, importance: float
) -> None:
    """Update the stack from an example that `stack_classes` has scored; `mixing` is scratch, float64[MIXING]."""
    chances, first = class_work.probabilities, CLASS_STACK * len(class_work.rivals)
    for i in range(PREDICTORS):
        mixing[i] = mixing[NEWTON_VECTOR + i] = 0.0
    for which in range(3):
        mean = 0.0
        for c in range(classes):
            mean += chances[first + c] * _score(class_work, which, c)
        mixing[_predictor(which)] = mean
        mixing[NEWTON_VECTOR + _predictor(which)] = importance * (_score(class_work, which, label) - mean)
    for which in range(3):
        i = _predictor(which)
        for other in range(which + 1):
            j = _predictor(other)
            covariance = 0.0
            for c in range(classes):
                beyond = _score(class_work, which, c) - mixing[i]
                covariance += chances[first + c] * beyond * (_score(class_work, other, c) - mixing[j])
            at = i * PREDICTORS + j
            mixture.curvature[at] = mixture.curvature[at] * KEEP + importance * covariance
    newton_step(mixture.stack, mixture.curvature, mixing, PREDICTORS, CLASS_RIDGE)


@part
def _predictor(which: int) -> int:
    """Return the place in `Mixture.stack` of the first, second and third predictor; they rise."""
    return LINEAR if which == 0 else APPLE if which == 1 else AVERAGE


@part
def _score(class_work: ClassWork, which: int, c: int) -> float:
    """Return the score of class c by the first, second or third predictor."""
    predictor = CLASS_LINEAR if which == 0 else CLASS_EXPANDED if which == 1 else CLASS_AVERAGE
    return float(class_work.scores[predictor * len(class_work.rivals) + c])
