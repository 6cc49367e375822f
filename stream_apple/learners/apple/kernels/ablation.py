"""What tuples add to predictions: the loss an example would have had without each, less the loss it had.

Zaidi et al. score a tuple by leaving it out and validating on examples held back (their CV score). On a stream every
example is scored before it is learned, so each one validates what was learned before, and none has to be held back. To
leave a tuple out, its feature's contribution is subtracted from the score. That costs one loss for each feature, and no
training without it. A side array of the table holds the sum of each feature; a tuple's score is the sum over its
features.
"""

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Model
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.work import ActiveFeatures
from stream_apple.learners.losses import loss_of

MOST_ABLATED = 1e300  # sums stay finite


@part
def add_ablations(
    model: Model, features: ActiveFeatures, old: Index, score: float, target: Target, bounds: tuple[float, float]
) -> None:
    """Add to each of features[:old] but the constant how much greater the loss would have been without it.

    score   the sum of all contributions, not clipped
    bounds  what scores are clipped to

    The difference is weighted by the example's importance.
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
