"""Whether users have weights of their own."""

from dataclasses import dataclass
from typing import ClassVar

BY_KEY = "key"
"""The user is the record's key."""


@dataclass(frozen=True)
class Personalisation:
    """The option of users.

    personalise  "": all weights are shared. The name of a namespace: its features are the example's users, whose
                 products with all other base features are base features too, from the first example on, so that a user
                 has a copy of the weights beside the shared ones. "key": the same, the user being the record's key
    """

    FIRST: ClassVar[dict[str, object]] = {"personalise": ""}

    personalise: str = ""

    def _columns_of_users(self) -> frozenset[str]:
        """The fields of `Batch` that say who the user is."""
        if not self.personalise:
            return frozenset()
        return frozenset({"users" if self.personalise == BY_KEY else "spaces"})
