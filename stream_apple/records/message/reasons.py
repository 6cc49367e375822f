"""The reasons to refuse a record, a closed list.

The codes are a contract with the readers of the dead-letter topic: `schemas/dead_letter.schema.json` has the same list,
in the same order. New reasons are appended.
"""

from enum import IntEnum


class Reason(IntEnum):
    """The reason why a record is refused; 0 is none."""

    OK = 0
    NULL_VALUE = 1
    RECORD_TOO_LARGE = 2
    MALFORMED = 3
    TOO_DEEP = 4
    WRONG_TYPE = 5
    DUPLICATE_KEY = 6
    NO_FEATURES = 7
    TOO_MANY_FEATURES = 8
    BAD_VALUE = 9
    BAD_WEIGHT = 10
    BAD_LABEL = 11
    BAD_ID = 12
    BAD_TIMESTAMP = 13
    FAR_FUTURE = 14
    OVERFLOW = 15
    SKIPPED = 16
    NO_ID = 17
    NO_LABEL = 18
    LATE = 19

    @property
    def code(self) -> str:
        """The reason as the headers of a dead letter have it."""
        return self.name.lower()
