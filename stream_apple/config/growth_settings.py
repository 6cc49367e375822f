"""Settings of the section `learner` of what grows, and of where scores start."""

from pydantic import Field
from pydantic.config import JsonDict

from stream_apple.config.section import Section
from stream_apple.core.learner.options import Options, Selection, WarmStart

_SINCE: JsonDict = {"since": "0.2.0"}


class GrowthSettings(Section):
    """How parents are chosen, and where scores start."""

    selection: Selection | None = Field(default=None, json_schema_extra=_SINCE)
    """XXX"""
    warm_start: WarmStart = Field(default=Options.warm_start, json_schema_extra=_SINCE)
    """XXX"""
