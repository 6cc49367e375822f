"""One predictor, and the linear one alongside, on slots that features of equal hashes share (`shared_expansion.py`)."""

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.decay import decayed_scores, settle_if_small
from stream_apple.learners.apple.kernels.rows import (
    are_finite,
    count_learned,
    is_learned,
    publish_clipped,
    row_features,
)
from stream_apple.learners.apple.kernels.shared_expansion import expand_shared, score_shared, use_base_values
from stream_apple.learners.apple.kernels.update import Target, clear_active, gather, learn_apple, learn_linear
from stream_apple.learners.apple.state.model import Decay, Model
from stream_apple.learners.apple.state.table import U0
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import Work
from stream_apple.learners.scores import Scores


@kernel
def process_shared(
    model: Model, decay: Decay | None, work: Work, batch: Batch, scores: Scores, start: int, stop: int, learn: bool,
) -> int:  # fmt: skip
    """Do what `process_plain` does; an example's new slots are taken during its expansion."""
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        found, shared = expand_shared(model, decay, example, learning, work)
        mixing[APPLE], wider = gather(slots, features, found)
        mixing[LINEAR], base = score_shared(model, work, shared, mixing[APPLE])
        if decay is not None:
            decayed_scores(model.table, decay, rule.decay, features, (base, found), mixing)
        if not rule.alongside:
            mixing[LINEAR] = mixing[APPLE]
        if not are_finite(mixing, APPLE + 1):
            clear_active(slots, features, found)
            return row
        publish_clipped(scores, row, model, mixing, label, learning)
        if not learning:
            clear_active(slots, features, found)
            continue
        target = Target(mixing[APPLE], label, batch.weights[row])
        count_learned(model.scalars.counts, example, found)
        learn_apple(model, decay, features, U0 if wider else found, found, target)
        if rule.alongside:
            use_base_values(model, work, base)
            linear = Target(mixing[LINEAR], label, target.importance)
            learn_linear(model, decay, features, base, found, found, linear)
        if decay is not None:
            settle_if_small(model.table, decay, rule.decay)
    return -1
