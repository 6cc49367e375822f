"""Settings of the section `learner` that say which tuples of attributes are learned from."""

from typing import Annotated

from pydantic import Field

from stream_apple.config.section import Boolean, Integer, Number, Section
from stream_apple.core.learner.options import ORDER, SELECTION_SHARE, Options


class TupleSettings(Section):
    """Which tuples are learned from with method `tuples`."""

    order: Annotated[Integer, Field(ge=0, le=ORDER.high)] | None = Field(
        default=None, json_schema_extra={"since": "0.2.0"}
    )
    """With method `tuples`: features are the base features, and the products of so many of different attributes. The
    default is 2; 3 where there are a dozen attributes and many examples (on four sets of up to 40,000 examples it took
    a tenth to a fifth off the error of two of them, and cost as much on the others); 0 with other methods."""
    selection_share: Number = Field(
        default=Options.selection_share,
        gt=SELECTION_SHARE.above,
        le=SELECTION_SHARE.high,
        json_schema_extra={"since": "0.2.0"},
    )
    """With method `tuples`: when an epoch has ended, this share of the tuples seen is kept, and the next ones learn
    from these alone: for fewer features an example and a smaller table, at about the same loss down to .3; below it
    grows. 1 leaves out nothing. It takes 1,000 examples; what is left out never comes back; a tuple with an attribute
    that comes later is learned at once and judged when the epoch ends."""
    hierarchical: Boolean = Field(default=Options.hierarchical, json_schema_extra={"since": "0.2.0"})
    """With a share below 1: select attributes in the first epoch, pairs of those in the second, and so on up to
    `order`. For hundreds of attributes, whose tuples are too many to be explored at once. It is blind to attributes
    that say something only together."""
