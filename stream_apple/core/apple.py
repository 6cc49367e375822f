"""Apple: score an example, then learn from it, with features that are products of parents and base features.

Adaptive polynomial expansion (Agarwal, Beygelzimer, Hsu, Langford, Telgarsky: "Scalable Nonlinear Learning with
Adaptive Polynomial Expansions", NIPS 2014) keeps a set of *parents*. An example's features are the products of
each parent present in it with each base feature present in it, every product once (`expansion.py`). The constant
is the first parent: its children are the base features themselves. At an epoch's end the heaviest monomials become
parents (`growth.py`). In between it is a linear learner (`update.py`) on a table of monomials (`table.py`).

A linear predictor learns alongside, in the same slots, from the base features alone: the difference between the
two losses is what the expansion earns.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.expansion import EXAMPLES, FEATURES, NONZEROS, Rule, Work, admit, expand
from stream_apple.core.jit import kernel
from stream_apple.core.table import U0, U1, Floats, Table, Words
from stream_apple.core.update import Totals, learn_apple, learn_linear, loss_of

LOG_ODDS_BOUND = 50.0  # logistic scores are clipped to +-50 (as in Vowpal Wabbit)


@kernel
def process(
    table: Table, totals: Totals, rule: Rule, work: Work,
    indptr: NDArray[np.int64], keys: Words, values: Floats, labels: NDArray[np.float64], weights: NDArray[np.float64],
    start: int, stop: int, learn: bool,  # noqa: FBT001
    scores: NDArray[np.float64], linear_scores: NDArray[np.float64], losses: NDArray[np.float64],
) -> int:  # fmt: skip
    """Progressive validation: score each row of [start, stop), then (if `learn`) learn it; in order.

    Writes scores, linear_scores and losses (NaN without a label) of these rows. A row without label, or of weight
    zero, is scored only. Returns -1; or the row whose score is not finite, which was not learned.
    """
    slots, tags, visitor = table
    norms, learned, bounds, counts = totals
    slot, x, weight, gradient, scale, step, newcomers, nodes, products, hits, misses = work
    for row in range(start, stop):
        label, importance = labels[row], weights[row]
        learning = learn and importance > 0.0 and not math.isnan(label)
        first, last = np.uint64(indptr[row]), np.uint64(indptr[row + 1])
        found, wanted = expand(
            slots, tags, visitor, counts, rule, keys, values, first, last, learning,
            slot, x, newcomers, nodes, products, hits, misses,
        )  # fmt: skip
        score, linear, base = 0.0, 0.0, U0
        for t in range(found):
            score += slots[slot[t]]["weight"] * x[t]
        if rule.alongside:
            while base < found and slots[slot[base]]["degree"] <= 1:
                linear += slots[slot[base]]["linear_weight"] * x[base]
                base += U1
        else:
            linear = score
        if not math.isfinite(score) or not math.isfinite(linear):
            for t in range(found):
                slots[slot[t]]["active"] = 0
            return row
        low, high = -LOG_ODDS_BOUND, LOG_ODDS_BOUND
        if not rule.logistic:
            if learning:  # before clipping, as in Vowpal Wabbit
                bounds[0] = min(bounds[0], label)
                bounds[1] = max(bounds[1], label)
            low, high = bounds[0], bounds[1]
        score = min(max(score, low), high)
        linear = min(max(linear, low), high)
        scores[row], linear_scores[row] = score, linear
        losses[row] = math.nan if math.isnan(label) else loss_of(rule.logistic, score, label)
        old = found
        if learning:
            found = admit(slots, tags, counts, slot, x, newcomers, found, wanted)
        for t in range(found):
            slots[slot[t]]["active"] = 0
        if learning:
            counts[EXAMPLES] += 1
            counts[NONZEROS] += indptr[row + 1] - indptr[row]
            counts[FEATURES] += np.int64(found)
            learn_apple(
                slots, norms, learned, rule, slot, x, weight, gradient, scale, step, found, score, label, importance
            )
            if rule.alongside:
                learn_linear(
                    slots, norms, learned, rule, slot, x, weight, gradient, scale, step, base, old, found,
                    linear, label, importance,
                )  # fmt: skip
    return -1
