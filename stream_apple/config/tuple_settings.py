"""Settings of the section `learner` that say which tuples of attributes are learned from."""

from typing import Annotated

from pydantic import Field

from stream_apple.config.section import Boolean, Integer, Number, Section
from stream_apple.core.learner.options import ORDER, SELECTION_SHARE, Options


class TupleSettings(Section):
    """Which tuples are learned from with method `tuples`."""

    order: Annotated[Integer, Field(ge=0, le=ORDER.high)] | None = Field(default=None)
    """With method `tuples`: features are the base features, and the products of so many of different attributes. The
    default is 2; with 3, errors fell from .193 to .165 on covertype and from .063 to .045 on letters (12 and 16
    attributes, 30,000 and 16,000 examples), and not on two other sets, for three to four times as many features an
    example; 0 with other methods. What is too much for `limits.max_features_per_example` is left out."""
    selection_share: Number = Field(
        default=Options.selection_share,
        gt=SELECTION_SHARE.above,
        le=SELECTION_SHARE.high,
    )
    """With method `tuples`: when an epoch has ended, this share of the tuples seen is kept, by `selection`, and the
    next ones learn from these alone, the others' slots being free again. For a smaller table and fewer features an
    example, not for accuracy: on four sets the errors of pairs with .6 were within .002 of those of all pairs, but on
    one that fell from .087 to .053; triples bore .3 on two of them. It takes 1,000 examples; what is left out never
    comes back; a tuple with an attribute that comes later is learned at once, and judged when the epoch ends."""
    hierarchical: Boolean = Field(default=Options.hierarchical)
    """With a share below 1: select attributes in the first epoch, pairs of those in the second, and so on up to
    `order`. For so many attributes that their tuples can't all be explored at once; else without it errors were smaller
    on three sets of four. It is blind to attributes that say something only together, and attributes that come later
    join no tuple."""
