"""One line of the report about a live cluster."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """What was found. `note`: good to know, stops nothing."""

    verdict: Literal["ok", "note", "fault"]
    subject: str
    text: str
