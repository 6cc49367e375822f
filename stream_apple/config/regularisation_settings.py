"""Settings of the section `learner` that hold weights small."""

from pydantic import Field

from stream_apple.config.section import Number, Section
from stream_apple.core.learner.options import L1, L2, Options


class RegularisationSettings(Section):
    """How weights are held small."""

    l2: Number = Field(default=Options.l2, ge=0, le=L2.high, json_schema_extra={"since": "0.2.0"})
    """L2"""
    l1: Number = Field(default=Options.l1, ge=0, le=L1.high, json_schema_extra={"since": "0.2.0"})
    """L1"""
