"""Decayed weights for readers, who look at a model between two examples: the model itself does not change."""

import numpy as np

from stream_apple.core.jit import kernel
from stream_apple.core.learner.kernels.decay import OF_APPLE, OF_FAST, OF_LINEAR, pending_shrinkage, soft_threshold
from stream_apple.core.learner.state.model import Decay, DecayRule
from stream_apple.core.learner.state.table import U0, Slots, Table


def view_settled(table: Table, decay: Decay, rule: DecayRule) -> Table:
    """Return the table for reading; if weights decay, with a copy of its slots that has decayed weights."""
    if not rule.active:
        return table
    slots = table.slots.view(np.uint8).copy().view(table.slots.dtype)  # as bytes: NumPy would copy field by field
    _write_settled(table, decay, rule, slots)
    return table._replace(slots=slots)


@kernel
def _write_settled(table: Table, decay: Decay, rule: DecayRule, slots: Slots) -> None:
    """Write the decayed weights of each slot to `slots`, a copy; the table stays as it is."""
    scale = decay.scale
    for place in range(U0, np.uint64(len(slots) - 1)):
        owner = slots[place]
        if owner["key"] == U0:
            continue
        by, fast, linear = 0.0, 0.0, 0.0
        if rule.l1 > 0.0:
            by, linear = (
                pending_shrinkage(table, decay, OF_APPLE, place),
                pending_shrinkage(table, decay, OF_LINEAR, place),
            )
        owner["weight"] = soft_threshold(owner["weight"], by) * scale[OF_APPLE]
        if owner["degree"] <= 1:
            owner["linear_weight"] = soft_threshold(owner["linear_weight"], linear) * scale[OF_LINEAR]
        elif len(table.companions) > 0:
            if rule.l1 > 0.0:
                fast = pending_shrinkage(table, decay, OF_FAST, place)
            owner["average"] = soft_threshold(owner["average"], by) * scale[OF_APPLE]
            owner["fast"] = soft_threshold(owner["fast"], fast) * scale[OF_FAST]
