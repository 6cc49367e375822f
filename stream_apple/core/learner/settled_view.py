"""Decayed weights for code that reads a model between two examples; the model itself does not change."""

import numpy as np

from stream_apple.core.jit import kernel
from stream_apple.core.learner.kernels.decay import decayed_weight, decays_with
from stream_apple.core.learner.state.model import Decay, DecayRule
from stream_apple.core.learner.state.table import U0, Slots, Table, copy_slots
from stream_apple.core.learner.state.weights import has_weight, predictors_of, write_weight


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
