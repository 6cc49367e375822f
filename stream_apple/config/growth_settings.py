"""Settings of the section `learner`: which products there are, by growth or by selection, and where scores start."""

from typing import Annotated

from pydantic import Field

from stream_apple.config.section import Boolean, Integer, Number, Section
from stream_apple.core.learner.options import ORDER, SELECTION_SHARE, Options, Selection, WarmStart


class GrowthSettings(Section):
    """How parents are chosen, and where scores start."""

    selection: Selection | None = None
    """How an epoch's end chooses parents with method `apple`. `evidence`: by weight times scale, less for monomials
    seen seldom; the default of a mixture. `weight`: without that; the default of `combine = "off"`. `mi`: by what a
    monomial's presence tells of the label, its summand of the mutual information (`loss = "logistic"`; 32 bytes a
    slot more). `ssm`: by the squared residuals it meets, the paper's other heuristic (`combine = "off"`; 16 bytes a
    slot more). The default is best as a rule. In a mixture, share of wrong signs in one pass of `mi` / `evidence`:
    cards .348/.358, covtype .224/.221, letter .106/.104, magic04 .160/.159, a9a .152/.152; with `combine = "off"`
    `mi` cost more. With
    method `tuples`, how the tuples are scored that `selection_share` chooses from: `mi`, the default with logistic
    loss, by their mutual information with the label; `cv` by how much greater the loss would have been without them,
    for either loss, where attributes have very different numbers of values, since `mi` favours many (8 bytes a slot
    more; 32 with either)."""
    warm_start: WarmStart = Options.warm_start
    """Where scores start, before weights have learned anything (`loss = "logistic"`). `none`: at 0. `naive_bayes`: at
    naive Bayes by the examples counted so far, of pairs with `quadratic`, of triples with `cubic`, else of
    features; it is believed as far as it has proved right, and weights learn the rest. For text, with any method,
    and for categories or intervals with `quadratic` or `cubic`, where labels go by what values say together. One
    pass, share of wrong signs, `none` / `naive_bayes`: hands of cards, quadratic .207/.023 and cubic .141/.049;
    newsgroups, linear .105/.093 and in a mixture .099/.092; letter, quadratic .076/.072; mushrooms, linear
    .011/.005; covtype .210/.208. Where features are many that say the same it may cost: a9a, quadratic .154/.155.
    Only features of value 1 have a say. In a mixture the linear predictors start at 0. It takes 32 bytes a slot
    more, and two to three times as long."""


class TupleSettings(Section):
    """Which tuples are learned from with method `tuples`."""

    order: Annotated[Integer, Field(ge=0, le=ORDER.high)] | None = None
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
    hierarchical: Boolean = Options.hierarchical
    """With a share below 1: select attributes in the first epoch, pairs of those in the second, and so on up to
    `order`. For so many attributes that their tuples can't all be explored at once; else without it errors were smaller
    on three sets of four. It is blind to attributes that say something only together, and attributes that come later
    join no tuple."""
