"""Score an example of k classes, then learn from it: the way of `kernels/plain.py` with a score for each class.

What is published are probabilities. Without a mixture they are apple's own. A mixture has three predictors, the linear
one, the average of apple's weights, and apple itself, and mixes their probabilities by their shares: Bayes' rule, the
aggregating algorithm for the log loss, at rate 1 (Vovk 1990), with a fixed share as in `kernels/mixture.py`. So its
loss exceeds the linear predictor's by at most log(1 / p[linear]) = 0.1, and by about SHARE an example, times the
largest importance weight. There is no stack: apple has its place.
"""

import math

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part
from stream_apple.core.learner.kernels.admission import admit
from stream_apple.core.learner.kernels.expansion import expand
from stream_apple.core.learner.kernels.mixture import APPLE, FIRST_SHARES, LIGHTEST, SHARE, empty_mixture, temper
from stream_apple.core.learner.kernels.rows import Scores, count_learned, example_of, is_learned
from stream_apple.core.learner.kernels.update import leave
from stream_apple.core.learner.multiclass.class_update import (
    admit_classes,
    bound_and_exponentiate,
    gather_base,
    gather_classes,
    prepare_step,
    step_all,
    step_linear,
    widen_classes,
)
from stream_apple.core.learner.multiclass.layout import BESIDE, EXPANDED, MEAN, ClassWork
from stream_apple.core.learner.state.model import Mixture, Model
from stream_apple.core.learner.state.recent import keep_recent
from stream_apple.core.learner.state.table import U0
from stream_apple.core.learner.state.work import Numbers64, Work


def empty_class_mixture(*, mixed: bool) -> Mixture:
    """That of a model that has seen nothing; what would be the stack's share is apple's."""
    mixture = empty_mixture(mixed=mixed)
    mixture.stack[:] = 0.0
    mixture.stack[APPLE : APPLE + 1] = 1.0
    return mixture


@kernel
def process_classes(
    model: Model, work: Work, room: ClassWork, batch: Batch, scores: Scores, start: int, stop: int,
    learn: bool,  # noqa: FBT001
) -> int:  # fmt: skip
    """As `process_plain`; labels are whole numbers from 0 to classes - 1, which is not checked here."""
    slots, rule, features, counts = model.table.slots, model.rule, work.features, model.scalars.counts
    predictors = MEAN + 1 if rule.mixed else BESIDE + 1 if rule.alongside else EXPANDED + 1
    for row in range(start, stop):
        label, importance = batch.labels[row], batch.weights[row]
        learning, example = is_learned(batch, row, learn), example_of(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        base, wider = gather_classes(model, features, old, room)
        finite = True
        for which in range(predictors):
            finite &= bound_and_exponentiate(room, which, rule.classes)
        if not finite:
            leave(slots, features, old)
            return row
        publish(model, room, scores, row, label)
        if not learning:
            leave(slots, features, old)
            continue
        found = admit(model, None, work, old, wanted)
        count_learned(counts, example, found)
        y = int(label)
        if rule.mixed:
            keep_recent(model.recent, example)
            learn_class_shares(model.mixture, room, rule.classes, y, importance)
        admit_classes(model, features, old, found)
        widen_classes(model, features, U0 if wider else old, found)
        prepare_step(model, features, found, EXPANDED, room, y, importance)
        step_all(model, features, found, room)
        if rule.alongside:
            base = gather_base(model, features, base, old, found)
            prepare_step(model, features, base, BESIDE, room, y, importance)
            step_linear(model, features, base, room)
    return -1


@part
def publish(model: Model, room: ClassWork, scores: Scores, row: int, label: float) -> None:
    """Mix the predictors' probabilities, and write the row of `scores`."""
    rule, chances, published = model.rule, room.chances, room.published
    k = rule.classes
    if rule.mixed:
        shares = model.mixture.shares
        for c in range(k):
            linear, average = chances[np.uint64(BESIDE * k + c)], chances[np.uint64(MEAN * k + c)]
            published[c] = min(shares[0] * linear + shares[1] * average + shares[2] * chances[c], 1.0)
    else:
        for c in range(k):
            published[c] = chances[c]
    beside = (BESIDE if rule.alongside else EXPANDED) * k
    best = most_probable(published, 0, k)
    scores.predictions[row], scores.probabilities[row] = np.float64(best), published[best]
    scores.apple[row] = np.float64(most_probable(chances, EXPANDED * k, k))
    scores.linear[row] = np.float64(most_probable(chances, beside, k))
    scores.losses[row] = scores.apple_losses[row] = scores.linear_losses[row] = math.nan
    if not math.isnan(label):
        y = int(label)
        scores.losses[row] = 0.0 - math.log(published[y])
        scores.apple_losses[row] = 0.0 - math.log(chances[np.uint64(EXPANDED * k + y)])
        scores.linear_losses[row] = 0.0 - math.log(chances[np.uint64(beside + y)])


@part
def most_probable(chances: Numbers64, first: int, classes: int) -> int:
    """The class with the largest of chances[first:first + classes], of equals the first."""
    best = 0
    for c in range(1, classes):
        if chances[np.uint64(first + c)] > chances[np.uint64(first + best)]:
            best = c
    return best


@part
def learn_class_shares(mixture: Mixture, room: ClassWork, classes: int, label: int, importance: float) -> None:
    """Learn whom to trust: shares by Bayes' rule, in units of the heaviest example."""
    heaviest = mixture.heaviest[0]
    if importance > heaviest:
        temper(mixture, heaviest / importance)
        mixture.heaviest[0] = heaviest = max(importance, LIGHTEST)
    shares, rate, most, total = mixture.shares, importance / heaviest, 0.0, 0.0
    for which in range(3):
        most = max(most, room.chances[np.uint64(_offered_class(which) * classes + label)])
    for which in range(3):
        chance = room.chances[np.uint64(_offered_class(which) * classes + label)]
        shares[which] *= math.exp(rate * math.log(chance / most))
        total += shares[which]
    for which in range(3):
        shares[which] = (1.0 - SHARE) * shares[which] / total + SHARE * FIRST_SHARES[which]


@part
def _offered_class(which: int) -> int:
    """The predictor whose share is shares[which]: linear, average, apple."""
    return BESIDE if which == 0 else MEAN if which == 1 else EXPANDED
