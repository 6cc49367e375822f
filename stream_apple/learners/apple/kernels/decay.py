"""L2 and L1 regularisation of all weights in every step, lazily: an example costs time for its own features only.

With each step of a predictor along its gradient all its weights but the constant's shrink, whether the example has
their features or not: first by the factor 1 - l2 * rate, then by l1 * rate / scale towards 0, where they stay. `rate`
is the step's length over the slope of the loss. `scale` is the largest value of the feature, so the feature's unit
makes no difference to the shrinkage, nor does it to steps. The step is added after the shrinkage, as in Vowpal Wabbit;
for values up to 1 the units are the same as there. Each predictor is regularised by its own score and rate, so it
minimises the same objective as it would alone.

The lazy form (Cohen, "Efficient logistic regression with stochastic gradient descent"; for L2 as a product, Bottou's):

    L2  a weight is scale * what the table has: one number shrinks all weights, and a step is divided by it
    L1  `drawn` is the total shrinkage of each weight * its feature's scale, in the table's units. A slot's stamp is
        the value of `drawn` when the slot was last written: the difference is the pending shrinkage, applied by soft
        thresholding. (Vowpal Wabbit charges a weight for the shrinkage since the first example. Then weights that
        begin late would hardly leave 0, nor would single steps.)

The average is the mean of apple's weights, and decays with them. Readers compute decayed weights on the fly and write
nothing. The table is *settled* when it is made to hold the weights themselves: when an epoch ends, and when a scale
becomes small, as the table's numbers are float32. Both follow from the examples alone. A snapshot never settles the
table: rounding would then depend on the clock.
"""

import math

import numpy as np

from stream_apple.core.jit import kernel, part, routine
from stream_apple.learners.apple.state.model import Decay, DecayRule
from stream_apple.learners.apple.state.table import MOST, U0, U1, Element, Index, Slots, Table, copy_slots
from stream_apple.learners.apple.state.weights import (
    AVERAGE,
    has_weight,
    is_expanded,
    predictors_of,
    read_weight,
    write_weight,
)
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64

PREDICTORS_THAT_DECAY = 5
# In the order of all predictors, without the average, which comes after apple there and decays with it.
OF_LINEAR, OF_APPLE, OF_FAST, OF_SLOW_LINEAR, OF_FAST_LINEAR = range(PREDICTORS_THAT_DECAY)
_LEAST_STEP = 1e-8  # nothing shrinks if the step is shorter, or the slope smaller (as in Vowpal Wabbit)
_LEAST_FACTOR = 2.0**-10  # of one example: more would change the sign
_LEAST_SCALE = 2.0**-30  # so that float32 holds weights up to 2^36
_LARGEST = float(MOST)


def decay_rule(l2: float, l1: float) -> DecayRule:
    """Return the rule for these amounts of regularisation, in Vowpal Wabbit's units."""
    return DecayRule(float(l2), float(l1), l2 > 0.0 or l1 > 0.0)  # an int would be compiled for anew


def no_decay_yet(rule: DecayRule, *, mixed: bool) -> Decay:
    """Return the decay of a model that has learned nothing: scales of 1, and no shrinkage."""
    size = stamps_of(mixed=mixed) if rule.active else 0
    return Decay(np.ones(size), np.zeros(size))


def stamps_of(*, mixed: bool) -> int:
    """Return how many stamps a slot has where L1 is on: one for each predictor that decays."""
    return PREDICTORS_THAT_DECAY if mixed else OF_APPLE + 1


@routine
def shrink(decay: Decay, rule: DecayRule, which: int, step: tuple[float, float], most: float) -> None:
    """Decay the weights of one predictor by one step.

    step  the step's length along the gradient, and the slope of the loss there
    most  the predictor's rate times the example's importance, which the exact invariant step never exceeds. The
          computed one may, as Lambert's W is approximated, and by far where the slope is next to 0: so `rate` is
          bounded by twice `most`
    """
    by, slope = step
    if abs(by) <= _LEAST_STEP or abs(slope) <= _LEAST_STEP:
        return
    rate = min(-by / slope, 2.0 * most)
    decay.scale[which] *= max(1.0 - rule.l2 * rate, _LEAST_FACTOR)
    decay.drawn[which] += min(rule.l1 * rate / decay.scale[which], _LARGEST)


@part
def decays_with(which: int) -> int:
    """Return the number, among the predictors that decay, of the one with which predictor `which` decays."""
    return which if which < AVERAGE else which - 1


@part
def soft_threshold(weight: Element, by: float) -> float:
    """Return the weight moved by `by` towards 0, and not beyond it."""
    return math.copysign(max(abs(weight) - by, 0.0), weight)


@part
def pending_shrinkage(table: Table, decay: Decay, which: int, place: Index) -> float:
    """Return by how much a predictor's weight has yet to move towards 0; 0 before the slot's first example."""
    if len(table.stamps) == 0:  # without L1
        return 0.0
    scale = np.float64(table.slots[place]["scale"])
    return (decay.drawn[which] - table.stamps[place, which]) / scale if scale > 0.0 else 0.0


@part
def in_table_units(change: float, scale: float) -> np.float32:
    """Return a change of weights divided by the predictor's scale, to be added to the table's numbers."""
    return np.float32(min(max(change / scale, -_LARGEST), _LARGEST))


@routine
def decayed_scores(
    table: Table, decay: Decay, rule: DecayRule, features: ActiveFeatures, ends: tuple[Index, Index], scores: Numbers64
) -> None:
    """Replace `scores`, which `gather` or its like has made of the table's numbers, by those of the decayed weights.

    ends  where the constant and base features end, and where all features end
    """
    if rule.l1 > 0.0:
        _write_caught_up_scores(table, decay, features, ends, scores)
    has = 0.0 if rule.l1 > 0.0 else 1.0  # whether the scores so far include the constant
    for which in range(predictors_of(table.companions)):
        constant = np.float64(read_weight(table.slots, table.companions, features.slot[0], which))
        scores[which] = (scores[which] - has * constant) * decay.scale[decays_with(which)] + constant


@part
def _write_caught_up_scores(
    table: Table, decay: Decay, features: ActiveFeatures, ends: tuple[Index, Index], scores: Numbers64
) -> None:
    """Write the scores of all but the constant, with the pending shrinkage; the table stays as it is."""
    base, found = ends
    for which in range(predictors_of(table.companions)):
        scores[which] = 0.0
        for t in range(U1, found if is_expanded(which) else base):
            weight = decayed_weight(table, decay, which, features.slot[t])
            scores[which] += np.float32(weight) * np.float64(features.x[t])


@part
def decayed_weight(table: Table, decay: Decay, which: int, place: Index) -> float:
    """Return a predictor's weight less its pending shrinkage, in the table's units."""
    by = pending_shrinkage(table, decay, decays_with(which), place)
    return soft_threshold(read_weight(table.slots, table.companions, place, which), by)


@routine
def catch_up(table: Table, decay: Decay, features: ActiveFeatures, stop: Index, leader: int) -> None:
    """Apply the pending shrinkage to features [1, stop), and gather the leader's weights.

    leader  APPLE, for the weights of the expanded predictors; or LINEAR, for those of the linear ones
    """
    for t in range(U1, stop):
        place = features.slot[t]
        _catch_up_weights(table, decay, place, is_expanded(leader))
        features.weight[t] = read_weight(table.slots, table.companions, place, leader)


@routine
def catch_up_slot(table: Table, decay: Decay, place: Index) -> None:
    """Apply the pending shrinkage to all weights of a slot, which is not the constant's."""
    _catch_up_weights(table, decay, place, True)
    if table.slots[place]["degree"] <= 1:
        _catch_up_weights(table, decay, place, False)


@part
def _catch_up_weights(table: Table, decay: Decay, place: Index, expanded: bool) -> None:
    predictors = predictors_of(table.companions)
    for which in range(predictors):
        if is_expanded(which) == expanded:
            write_weight(table.slots, table.companions, place, which, decayed_weight(table, decay, which, place))
    for which in range(predictors):
        if is_expanded(which) == expanded:
            of = decays_with(which)
            table.stamps[place, of] = decay.drawn[of]


@routine
def usefulness_of(table: Table, decay: Decay, place: Index) -> np.float32:
    """Return the larger of a monomial's decayed weights, times its scale: what admission compares."""
    owner, scale = table.slots[place], decay.scale
    by, far = pending_shrinkage(table, decay, OF_APPLE, place), pending_shrinkage(table, decay, OF_LINEAR, place)
    of_other = scale[OF_LINEAR]
    if owner["degree"] > 1:  # a product's field `linear_weight` is its average, or 0
        far, of_other = by, scale[OF_APPLE]
    own = abs(soft_threshold(owner["weight"], by)) * scale[OF_APPLE]
    other = abs(soft_threshold(owner["linear_weight"], far)) * of_other
    return np.float32(max(own, other) * owner["scale"])


@part
def settle_if_small(table: Table, decay: Decay, rule: DecayRule) -> None:
    """Settle the table if a scale has become so small that float32 might not hold the table's numbers."""
    least = 1.0
    for which in range(len(decay.scale)):
        least = min(least, decay.scale[which])
    if least < _LEAST_SCALE:
        _settle(table, decay, rule)


@kernel
def settle(table: Table, decay: Decay, rule: DecayRule) -> None:
    """Write the decayed weights to the table, and set scales to 1 and the shrinkage to 0."""
    _settle(table, decay, rule)


@routine
def _settle(table: Table, decay: Decay, rule: DecayRule) -> None:
    scale, stamps, slots, companions = decay.scale, table.stamps, table.slots, table.companions
    for place in range(U0, np.uint64(len(slots) - 1)):
        owner = slots[place]
        if owner["key"] == U0:
            continue
        if rule.l1 > 0.0:
            catch_up_slot(table, decay, place)
            for which in range(len(scale)):
                stamps[place, which] = 0.0
        for which in range(predictors_of(companions)):
            if has_weight(owner, which):
                weight = read_weight(slots, companions, place, which) * scale[decays_with(which)]
                write_weight(slots, companions, place, which, weight)
    for which in range(len(scale)):
        scale[which] = 1.0
        decay.drawn[which] = 0.0


def view_settled(table: Table, decay: Decay, rule: DecayRule) -> Table:
    """Return the table for reading; if weights decay, with copies of slots and companions that have decayed weights."""
    if not rule.active:
        return table
    slots, companions = copy_slots(table)
    _write_settled(table, decay, slots, companions)
    return table._replace(slots=slots, companions=companions)


@kernel
def _write_settled(table: Table, decay: Decay, slots: Slots, companions: Slots) -> None:
    """Write the decayed weights of each slot to `slots` and `companions`, copies; the table stays as it is."""
    for place in range(U0, np.uint64(len(slots) - 1)):
        owner = slots[place]
        if owner["key"] == U0:
            continue
        for which in range(predictors_of(companions)):
            if has_weight(owner, which):
                weight = decayed_weight(table, decay, which, place) * decay.scale[decays_with(which)]
                write_weight(slots, companions, place, which, weight)
