"""The kernel of models of k classes, which scores and learns like `kernels/process.py`, with a score for each class.

It is not the kernel of binary labels, too: as two classes they take twice as long as one score, since each class has
weights and accumulators of its own (`python tests/bench/growth.py 20000 classes`).

Probabilities are published. Without a mixture they are apple's own. A mixture has three predictors, the linear one, the
average of apple's weights, and apple itself, and a stack of the three (`class_stack.py`). The probabilities of linear,
average and stack are mixed by their shares: Bayes' rule, the aggregating algorithm for the log loss, at rate 1 (Vovk
1990), with a fixed share as in `kernels/mixture.py`. So its loss exceeds the linear predictor's by at most log(1 /
p[linear]) = 0.1, plus about SHARE for each example and DEALT for each restart, all times the largest importance weight;
an example that is heavier than all before it may add more, as there.
"""

import math

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.drift import has_risen
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.mixture import empty_mixture, heaviest_of, learn_shares
from stream_apple.learners.apple.kernels.rows import (
    DONE,
    LOSSES_ROSE,
    NOT_FINITE,
    count_learned,
    is_learned,
    row_features,
)
from stream_apple.learners.apple.kernels.update import clear_active, gather_base
from stream_apple.learners.apple.multiclass.class_stack import learn_class_stack, stack_classes
from stream_apple.learners.apple.multiclass.class_update import (
    admit_classes,
    gather_classes,
    prepare_step,
    step_all,
    step_linear,
    widen_classes,
)
from stream_apple.learners.apple.state.classes import (
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    CLASS_STACK,
    ClassWork,
)
from stream_apple.learners.apple.state.model import Mixture, Model
from stream_apple.learners.apple.state.recent import keep_recent
from stream_apple.learners.apple.state.table import U0
from stream_apple.learners.apple.state.weights import APPLE
from stream_apple.learners.apple.state.work import Numbers64, Work
from stream_apple.learners.loss_functions import class_agreement, softmax
from stream_apple.learners.scores import Scores


def empty_class_mixture(*, mixed: bool) -> Mixture:
    """Return the mixture of a model that has learned nothing; its stack publishes apple's score."""
    mixture = empty_mixture(mixed=mixed)
    mixture.stack[:] = 0.0
    mixture.stack[APPLE : APPLE + 1] = 1.0
    return mixture


@kernel
def process_classes(
    model: Model, work: Work, class_work: ClassWork, batch: Batch, scores: Scores,
    start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Do what `kernels/process.py` does; labels are whole numbers from 0 to classes - 1, which is not checked here."""
    slots, rule, features, counts = model.table.slots, model.rule, work.features, model.scalars.counts
    stride = np.uint64(len(class_work.rivals))
    predictors = CLASS_AVERAGE + 1 if rule.mixed else CLASS_LINEAR + 1 if rule.alongside else CLASS_EXPANDED + 1
    for row in range(start, stop):
        label, importance = batch.labels[row], batch.weights[row]
        learning, example = is_learned(batch, row, learn), row_features(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        base, wider = gather_classes(model, features, old, class_work)
        finite = True
        for which in range(predictors):
            first = np.uint64(which) * stride
            finite &= softmax(class_work.scores, class_work.probabilities, first, first + np.uint64(rule.classes))
        if finite and rule.mixed:
            finite = stack_classes(model.mixture, class_work, rule.classes)
        if finite:
            mix_classes(model, class_work)
        if not finite:
            clear_active(slots, features, old)
            work.next_row[0] = row
            return NOT_FINITE
        publish_classes(model, class_work, scores, row, label)
        if not learning:
            clear_active(slots, features, old)
            continue
        found = admit(model, work, old, wanted)
        count_learned(counts, example, found)
        y = int(label)
        if rule.mixed:
            keep_recent(model.recent, example, label, importance)
            learn_class_shares(model.mixture, class_work, work.mixing.losses, y, importance)
            learn_class_stack(model.mixture, class_work, work.mixing, rule.classes, y, importance)
        admit_classes(model, features, old, found)
        widen_classes(model, features, U0 if wider else old, found)
        prepare_step(model, features, found, CLASS_EXPANDED, class_work, y, importance)
        step_all(model, features, found, class_work)
        if rule.alongside:
            base = gather_base(slots, features, base, old, found)
            prepare_step(model, features, base, CLASS_LINEAR, class_work, y, importance)
            step_linear(model, features, base, class_work)
        held, expected = class_agreement(class_work.published, y)
        if rule.restarts and has_risen(model.watch, scores.losses[row], held, expected):
            work.next_row[0] = row + 1
            return LOSSES_ROSE
    work.next_row[0] = stop
    return DONE


@part
def mix_classes(model: Model, class_work: ClassWork) -> None:
    """Write to `published` the mixture of the predictors' probabilities, or apple's own."""
    rule, probabilities, published = model.rule, class_work.probabilities, class_work.published
    k, stride = rule.classes, len(class_work.rivals)
    if rule.mixed:
        shares = model.mixture.shares
        for c in range(k):
            linear, average, stacked = (
                probabilities[np.uint64(CLASS_LINEAR * stride + c)],
                probabilities[np.uint64(CLASS_AVERAGE * stride + c)],
                probabilities[np.uint64(CLASS_STACK * stride + c)],
            )
            published[c] = min(shares[0] * linear + shares[1] * average + shares[2] * stacked, 1.0)
    else:
        for c in range(k):
            published[c] = probabilities[c]


@part
def publish_classes(model: Model, class_work: ClassWork, scores: Scores, row: int, label: float) -> None:
    """Write the row of `scores`: `mix_classes` has written the probabilities to publish."""
    rule, probabilities, published = model.rule, class_work.probabilities, class_work.published
    k, stride = rule.classes, len(class_work.rivals)
    linear_first = (CLASS_LINEAR if rule.alongside else CLASS_EXPANDED) * stride
    best = most_probable(published, 0, k)
    scores.predictions[row], scores.probabilities[row] = np.float64(best), published[best]
    for c in range(scores.all_probabilities.shape[1]):
        scores.all_probabilities[row, c] = published[c]
    scores.expanded[row] = np.float64(most_probable(probabilities, CLASS_EXPANDED * stride, k))
    scores.linear[row] = np.float64(most_probable(probabilities, linear_first, k))
    scores.losses[row] = scores.expanded_losses[row] = scores.linear_losses[row] = math.nan
    if not math.isnan(label):
        y = int(label)
        scores.losses[row] = 0.0 - math.log(published[y])
        scores.expanded_losses[row] = 0.0 - math.log(probabilities[np.uint64(CLASS_EXPANDED * stride + y)])
        scores.linear_losses[row] = 0.0 - math.log(probabilities[np.uint64(linear_first + y)])


@part
def most_probable(probabilities: Numbers64, first: int, classes: int) -> int:
    """Return the class with the largest of probabilities[first:first + classes], the first of equals."""
    best = 0
    for c in range(1, classes):
        if probabilities[np.uint64(first + c)] > probabilities[np.uint64(first + best)]:
            best = c
    return best


@part
def learn_class_shares(
    mixture: Mixture, class_work: ClassWork, losses: Numbers64, label: int, importance: float
) -> None:  # fmt: skip
    """Update the shares by Bayes' rule, with importance in units of the heaviest example; `losses` is scratch."""
    stride = len(class_work.rivals)
    for which in range(3):
        place = np.uint64(_predictor_of_class_share(which) * stride + label)
        losses[which] = -math.log(class_work.probabilities[place])
    learn_shares(mixture, losses, importance / heaviest_of(mixture, importance))


@part
def _predictor_of_class_share(which: int) -> int:
    """Return the predictor that shares[which] belongs to: linear, average, or stack."""
    return CLASS_LINEAR if which == 0 else CLASS_AVERAGE if which == 1 else CLASS_STACK
