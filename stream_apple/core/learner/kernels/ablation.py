"""What tuples add to predictions: the loss an example would have had without each, less the loss it had.

Zaidi et al. score a tuple by leaving it out and validating on examples held back (their CV score). On a stream every
example is scored before it is learned, so each validates what was learned before it and none need be held back. A tuple
is left out by taking its feature's contribution from the score: one loss a feature, and no training without it. The sum
stands beside the feature's slot; a tuple's is that of its features.
"""

from stream_apple.core.jit import part
from stream_apple.core.learner.kernels.losses import loss_of
from stream_apple.core.learner.kernels.update import Target
from stream_apple.core.learner.state.model import Model
from stream_apple.core.learner.state.table import Index
from stream_apple.core.learner.state.work import ActiveFeatures

MOST_ABLATED = 1e300  # sums stay finite


@part
def add_ablations(
    model: Model, features: ActiveFeatures, old: Index, score: float, target: Target, bounds: tuple[float, float]
) -> None:
    """Add to each of features[:old] but the constant how much greater the loss would have been without it.

    The features were gathered, with the raw `score`. `bounds` are those that scores are clipped to; the difference is
    weighted by the example's importance.
    """
    slots, ablations = model.table.slots, model.table.ablations
    low, high = bounds
    before = loss_of(model.rule.loss, target.score, target.label)
    for t in range(old):
        place = features.slot[t]
        if slots[place]["degree"] > 0:
            without = min(max(score - float(features.weight[t] * features.x[t]), low), high)
            gained = target.importance * (loss_of(model.rule.loss, without, target.label) - before)
            ablations[place] = min(max(ablations[place] + gained, -MOST_ABLATED), MOST_ABLATED)
