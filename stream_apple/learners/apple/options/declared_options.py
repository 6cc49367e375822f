"""Each option of a learner is declared here, once: its type, bounds and default, and what it does.

The docstring below an option is its text in `docs/configuration.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from stream_apple.learners.apple.options.ngrams import ALL_NAMESPACES, NGRAM, Ngrams, parse_ngrams
from stream_apple.learners.declaration import IntegerBounds, NumberBounds, Option, declarations_of

Method = Literal["apple", "linear", "quadratic", "cubic"]
LossName = Literal["squared", "logistic", "softmax"]
Selection = Literal["weight", "ssm"]
Steps = Literal["adaptive", "theorem1"]
Discretise = Literal["none", "spline"]
Drift = Literal["ignore", "restart"]

BITS = IntegerBounds(8, 30)
ALPHA = NumberBounds(0, 2)
LEARNING_RATE = NumberBounds(0, 1000)
CLASSES = IntegerBounds(2, 1000)
"""Of softmax; the other losses have 0."""
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them
DEGREES = IntegerBounds(1, 250)
PAPER: dict[str, Any] = {"expert": True, "section": "learner.paper"}
"""Of an option of the paper's own algorithm."""


@dataclass(frozen=True)
class DeclaredOptions:
    """The options as they are declared; `Options` checks them, and replaces None by what goes with the others."""

    method: Annotated[Method, Option("Which products of features are learned.")] = "apple"
    """Which products of features are learned, besides the features themselves. `apple`: those that prove useful while
    the stream runs. `linear`: none. `quadratic`: all of two features; `cubic`: also all of three."""
    loss: Annotated[LossName, Option("The loss that is minimised.")] = "squared"
    """The loss that is minimised: `squared` for labels that are amounts; `logistic` for two labels, 1 and either -1 or
    0; `softmax` for labels that are one of `classes`."""
    classes: Annotated[
        int,
        Option(
            "With --loss softmax: labels are whole numbers from 0 to CLASSES - 1.",
            IntegerBounds(0, CLASSES.high),
        ),
    ] = 0
    """How many classes there are with `loss = "softmax"`, 2 to 1000; with another loss it is 0. Labels are whole
    numbers from 0 to classes - 1, which exclude each other and have no order. A prediction is the most probable class,
    with its probability. For two classes `logistic` is better: it mixes six predictors, softmax three. Each class adds
    20 bytes to a slot (8 with method `linear`, 16 with other methods or `mixture = false`), so many classes need few
    `bits`. Time is proportional to classes times features."""
    bits: Annotated[int | None, Option("The table has 2^bits slots.  [default: 18, cubic 24]", BITS)] = None
    """The size of the table: 2^bits slots of 32 bytes for each partition, and a monomial takes one of them. A base
    feature takes 12 bytes more, except with method `linear`. A full table evicts what is least useful."""
    learning_rate: Annotated[
        float | None,
        Option("Step size.  [default: 0.5, of mixed classes 0.75]", LEARNING_RATE),
    ] = None
    """The size of the adaptive update's steps. In a mixture it hardly matters, except with `loss = "softmax"`, where
    all predictors learn at this rate: there the default is 0.75, and elsewhere 0.5."""
    mixture: Annotated[
        bool | None,
        Option("Publish a mixture of predictors, or the score of one as in the paper.  [default: with method apple]"),
    ] = None
    """Whether several predictors learn and their mixture is published, which is the default with method `apple`. The
    mixture is never noticeably worse than its linear predictor, at any learning rate. `false` is the paper's algorithm:
    one predictor, with the settings of `[learner.paper]`. The other methods have no mixture."""
    max_degree: Annotated[
        int | None,
        Option("Products have at most this many factors.  [default: 4 in a mixture, else 250]", DEGREES, expert=True),
    ] = None
    """The most factors that a product has with method `apple`."""
    max_products: Annotated[
        int,
        Option(
            "Growth allows at most this many products an example on average.",
            IntegerBounds(1, MAX_FEATURES_PER_EXAMPLE.high),
            expert=True,
        ),
    ] = 1000
    """The most features that an example of a mixture may have on average from products of parents. Time is proportional
    to it. Examples with few features get fewer: 16 products for each base feature, but at least 250. When the limit is
    reached, the parents that earn least make room."""
    drift: Annotated[
        Drift | None,
        Option(
            "When losses have risen for good, learn fast again (restart), or continue (ignore).  "
            "[default: restart in a mixture]",
            expert=True,
        ),
    ] = None
    """What the model does when its loss has risen by more than chance explains (ADWIN: Bifet, Gavalda 2007). `restart`:
    it multiplies all weights by how far its scores still hold on the latest examples, from 1 (as before) to -1
    (inverted). The less they hold, the faster the model then learns and grows. `ignore`: nothing."""
    mergeable: Annotated[
        bool | None,
        Option("Grow only when epochs end, so that models can be merged.  [default: without a mixture]", expert=True),
    ] = None
    """Whether the model can be merged with others. A mergeable mixture grows only when epochs end, and does not restart
    after drift. Other mixtures also grow after 60 examples, after 120, and so on. The default is `true` if models are
    merged (`merge.mode`), and for models without a mixture, which are always mergeable."""
    alpha: Annotated[
        float,
        Option("An epoch adds s^ALPHA parents; s is the mean number of features of an example.", ALPHA, **PAPER),
    ] = 1.0
    """How many parents the end of an epoch adds: s^alpha, where s is the mean number of features of an example."""
    selection: Annotated[
        Selection, Option("How the end of an epoch chooses parents: by weight, or by squared residuals (ssm).", **PAPER)
    ] = "weight"
    """How the end of an epoch chooses parents. `weight`: by weight times scale. `ssm`: by the squared residuals of a
    monomial's examples, the paper's other heuristic, which takes 16 bytes a slot more."""
    fallback: Annotated[bool, Option("One new parent of an epoch is the first of the smallest degree.", **PAPER)] = (
        False
    )
    """Whether one new parent of each epoch is the first monomial of the smallest degree that is no parent (section
    2.2 of the paper)."""
    steps: Annotated[Steps, Option("Adaptive steps, or those of the paper's Theorem 1 (theorem1).", **PAPER)] = (
        "adaptive"
    )
    """The steps of gradient descent. `adaptive`: Vowpal Wabbit's. `theorem1`, with `loss = "logistic"`: steps of
    1 / (lambda * (t + 1)), for which the paper's Theorem 1 holds. They have no learning rate, and minimize the mean
    loss + lambda * |w|^2 / 2, the constant's weight included."""
    theorem1_lambda: Annotated[float, Option("The lambda of --steps theorem1.", NumberBounds(0, 1000), **PAPER)] = 0.01
    """The lambda of `steps = "theorem1"`. It has no effect with adaptive steps."""
    ngrams: Annotated[
        Mapping[str, int] | Ngrams,
        Option(
            f"Make features of two to N (at most {NGRAM.high}) neighbours in NAMESPACE, in the order of the file; "
            f"{ALL_NAMESPACES!r} stands for every other namespace, and nothing before the = for features without one.",
            NGRAM,
            expected=f"namespaces and numbers up to {NGRAM.high}, as in {{ text = 2 }}, or text=2 in the environment",
            parse=parse_ngrams,
            metavar="NAMESPACE=N,...",
        ),
    ] = ()
    """In which namespaces neighbours are features too, as with Vowpal Wabbit's `--ngram`: with `{ text = 2 }` each two
    features of `text` that follow each other in the message are, with 3 each three as well. `"*"` is every namespace
    that is not named, `""` the features without one; 1 exempts a namespace from `"*"`. Use it for text whose words come
    in their order, if pairs say what single words don't. If the order means nothing, it costs accuracy and time. See
    *Words side by side* in `docs/choosing-a-learner.md`."""
    discretise: Annotated[
        Discretise | None,
        Option(
            "Learn numbers as values and splines, or as they are (none).  [default: spline in a mixture]",
        ),
    ] = None
    """What a number is learned as. `spline`, the default of a mixture: its value, less the mean and in units of the
    standard deviation, and how near it is to each of the two points that it lies between, of about six in all. So what
    is learned of it is piecewise linear. Numbers are centered from the fifth learned example on, and get their points
    after the 40th. `none`: its value. Text and 0/1 features stay as they are. See *Numbers as splines* in
    `docs/choosing-a-learner.md`."""
    pending_labels: Annotated[
        int,
        Option(
            "With --label-delay: remember so many examples until their labels come.",
            IntegerBounds(0, 2_000),
            expert=True,
            unit="examples",
        ),
    ] = 2_000
    """How many examples of a partition that have no label yet are remembered, by their `id` and with their scores. When
    a record of the same id brings the label, the published score is judged (`stream_apple_asked_loss`), and a mixture
    learns from these scores which predictor to trust, as they are the ones that were used. If more are waiting, a
    sample is remembered: one id of two, of four, and so on up to 64. Not with `loss = "softmax"`."""
    max_features_per_example: Annotated[
        int,
        Option(
            "Most features of an example; expansion stops there.",
            MAX_FEATURES_PER_EXAMPLE,
            expert=True,
            section="limits",
            unit="features",
        ),
    ] = 65_536


DECLARED = {each.name: each for each in declarations_of(DeclaredOptions)}
"""Name -> declaration."""
