"""Settings of the section `learner` of what grows, and of where scores start."""

from pydantic import Field
from pydantic.config import JsonDict

from stream_apple.config.section import Section
from stream_apple.core.learner.options import Options, Selection, WarmStart

_SINCE: JsonDict = {"since": "0.1.0"}


class GrowthSettings(Section):
    """How parents are chosen, and where scores start."""

    selection: Selection | None = Field(default=None, json_schema_extra=_SINCE)
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
    warm_start: WarmStart = Field(default=Options.warm_start, json_schema_extra=_SINCE)
    """Where scores start, before weights have learned anything (`loss = "logistic"`). `none`: at 0. `naive_bayes`: at
    naive Bayes by the examples counted so far, of pairs with `quadratic`, of triples with `cubic`, else of
    features; it is believed as far as it has proved right, and weights learn the rest. For text, with any method,
    and for categories or intervals with `quadratic` or `cubic`, where labels go by what values say together. One
    pass, share of wrong signs, `none` / `naive_bayes`: hands of cards, quadratic .207/.023 and cubic .141/.049;
    newsgroups, linear .105/.093 and in a mixture .099/.092; letter, quadratic .076/.072; mushrooms, linear
    .011/.005; covtype .210/.208. Where features are many that say the same it may cost: a9a, quadratic .154/.155.
    Only features of value 1 have a say. In a mixture the linear predictors start at 0. It takes 32 bytes a slot
    more, and two to three times as long."""
