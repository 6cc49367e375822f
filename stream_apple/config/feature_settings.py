"""Settings of the section `learner`: what becomes of features before and while they are learned."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from stream_apple.config.section import Integer, Section
from stream_apple.core.learner.options import (
    BINS,
    NGRAM,
    RESERVOIR,
    Collisions,
    Discretise,
    Options,
    parse_ngrams,
)


def _table_from_text(value: object) -> object:
    return parse_ngrams(value) if isinstance(value, str) else value


class NgramSettings(Section):
    """Which neighbours are features of their own."""

    ngrams: Annotated[
        dict[str, Annotated[Integer, Field(ge=NGRAM.low, le=NGRAM.high)]], BeforeValidator(_table_from_text)
    ] = Field(
        default_factory=dict,
        json_schema_extra={
            "expected": f"namespaces and numbers up to {NGRAM.high}, as in {{ text = 2 }}, or text=2 in the environment"
        },
    )
    """Namespaces whose neighbours are features too, as with Vowpal Wabbit's `--ngram`: with `{ text = 2 }` each two
    features of `text` that follow each other in the message, with 3 each three as well. `"*"` is all namespaces that
    are not named, `""` features without; 1 leaves one out of `"*"`. For text whose words come in their order, where
    pairs say what their words don't: on 10,605 sentences about films, AUC .807 → .813 with `linear`, .814 → .823
    with `apple`, at twice the features. Not where the order means nothing, as of words that are sorted by number:
    20news so sorted, .964 → .959. Not with method `tuples`. See *Words side by side* in
    `docs/choosing-a-learner.md`."""


class DiscretisationSettings(Section):
    """What numeric features are learned as."""

    discretise: Discretise = Options.discretise
    """What a numeric feature is learned as. `none`: its value. `quantile`: the interval that its value lies in,
    between quantiles; `mdl`: between cuts that tell labels apart, so features that tell nothing stay values. `auto`:
    both, the value and its interval, which is better than either, or within 1%, on 16 of 17 sets of up to 20,000
    examples, but 1.9% worse than `none` on the first 2,000 of one: the choice for tables of numbers, at about half
    the speed. `quantile` is the fastest, and better than values for quadratic and cubic. Text and 0/1 features stay
    as they are. One shuffled pass over 8,000 examples, share of wrong signs without any tuning, `none` / `quantile` /
    `auto`: covtype .302/.258/.249, magic04 .196/.176/.165, letter .190/.131/.117, adult .165/.156/.155. See *Numbers
    as intervals* in `docs/choosing-a-learner.md`."""
    bins: Annotated[Integer, Field(ge=BINS.low, le=BINS.high)] | None = None
    """Most intervals of a feature with `discretise` quantile (default 12) or auto (default 6). More than 12 were worse
    on most sets: each interval has fewer examples to learn from."""
    reservoir: (
        Annotated[Integer, Field(ge=RESERVOIR.low, le=RESERVOIR.high, json_schema_extra={"unit": "examples"})] | None
    ) = None
    """After so many learned examples cuts are made, once and for all; until then values are learned as they are. The
    default is 500. More are worth it only where the first examples are not like the later ones."""
    discretise_namespaces: Annotated[
        str,
        Field(pattern=r"^\S{0,1000}$", json_schema_extra={"expected": "names with commas between, and no white space"}),
    ] = Field(default=Options.discretise_namespaces)
    """Names of namespaces, with commas between: only their features are discretised. Empty: those of all."""


class PersonalisationSettings(Section):
    """Whose weights there are, and whose they are when there is no room for all."""

    personalise: str = Field(
        default=Options.personalise,
        pattern=r"^\S*$",
        json_schema_extra={"expected": "a namespace without white space, 'key', or '' for no user"},
    )
    """Users with weights of their own beside the shared ones: the namespace whose features name the user, such as
    `user`, or `key` for the record's key. Use it where users come back and differ in what the same features mean to
    them: with 100 planted users, a tenth of whom mean the opposite, a quarter less spam passes at 1 % of false alarms;
    where nobody differs a third more does. A user without history gets the shared score. Partition the topic by user,
    else each partition learns a fragment of every user; `bits` has to hold users times features."""
    collisions: Collisions = Options.collisions
    """What becomes of features for which the table has no room. `evict`: the least useful makes room. `share`, for the
    methods `linear` and `quadratic`: the hashing trick, features of equal hash share a weight, which `inspect` can't
    name. With room both are the same. Use `share` for `quadratic` where products outnumber the slots by far (20news in
    2^18: test error .131, not .201); with `linear` it loses what `evict` keeps. The figures are in
    `docs/choosing-a-learner.md`."""
