"""The digest of a learner's state, 32 hex digits over every bit that future scores and sums depend on."""

from collections.abc import Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import SIDES, Table, base_features, sides_of

_PORTION = 1 << 18
"""Slots in a portion: few enough to be in the cache still for the second look, and many enough for few Python calls."""


class StateDigest:
    """The digest, computed in steps: first the slots, in order, then the rest."""

    def __init__(self) -> None:
        self._state = xxhash.xxh3_128()
        self._companions = xxhash.xxh3_128()
        # One for each: what is hashed must not depend on how many slots came at once.
        self._sides = {name: xxhash.xxh3_128() for name in SIDES}

    def add_slots(self, table: Table, start: int, stop: int) -> None:
        """Add the next slots, [start, stop), and their side arrays; the last slot is the constant's."""
        for at in range(start, stop, _PORTION):
            self._add_portion(table, at, min(at + _PORTION, stop))

    def _add_portion(self, table: Table, start: int, stop: int) -> None:
        slots = table.slots[start:stop]
        self._state.update(slots.view(np.uint8).data)
        if len(table.companions):
            self._companions.update(table.companions[start:stop][base_features(slots)].view(np.uint8).data)
        for name, side in sides_of(table, start, stop).items():
            self._sides[name].update(np.ascontiguousarray(side[slots["key"] != 0]).view(np.uint8).data)

    def finish(self, table: Table, sums: Mapping[str, NDArray[np.generic]]) -> str:
        """Add the rest of the table and all other state, and return the 32 hex digits."""
        if len(table.companions):
            self._companions.update(table.companions[-1:].view(np.uint8).data)  # the constant's
            self._state.update(self._companions.digest())
        for name, constant in sides_of(table, len(table.slots) - 1, len(table.slots)).items():
            self._sides[name].update(np.ascontiguousarray(constant).view(np.uint8).data)
            self._state.update(self._sides[name].digest())
        rest: list[NDArray[np.generic]] = [table.tags, table.admission_filter, *sums.values()]
        for array in rest:
            self._state.update(array.view(np.uint8).data)
        return self._state.hexdigest()
