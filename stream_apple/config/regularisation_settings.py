"""Settings of the section `learner` that hold weights small."""

from pydantic import Field

from stream_apple.config.section import Number, Section
from stream_apple.core.learner.options import L1, L2, Options


class RegularisationSettings(Section):
    """How weights are held small."""

    l2: Number = Field(default=Options.l2, ge=0, le=L2.high)
    """With each step of a predictor all its weights but the constant's shrink by this much times the step's rate
    (Vowpal Wabbit's units). Set 0.0001 to 0.001 where there are fewer examples than features: on 1,000 news
    articles of 10,000 words the test loss of the mixture fell from .277 to .267. Else steps that become smaller by
    themselves are enough: on 13,000 to 20,000 examples 0.00001 changed the loss by less than .003, mostly for the
    worse, and 0.001 cost .01 to .25. It also forgets what is no longer seen."""
    l1: Number = Field(default=Options.l1, ge=0, le=L1.high)
    """As `l2`, but weights are drawn to 0 by this much times the rate, over the feature's largest value, and stay
    there; an epoch's end frees the slots of products without weight. Set 0.00001 with method `apple` where features
    are many and rare, the table is too small, or the model is to be read: in the mixture 34,162 products of 20news
    became 21,809, and the test loss fell from .185 to .181; 4,618 of a9a became 3,912 at the same loss. With
    `combine = "off"` it may cost more (20news: .227 to .270; a9a: .342 to .338). 0.0001 is too much: .005 to .08. A
    slot takes 16 bytes more, 40 in a mixture."""
