"""Each option of a learner is declared here, once: its type, bounds and default, and what it does.

The docstring below an option is its text in `docs/configuration.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from stream_apple.learners.apple.options.ngrams import ALL_NAMESPACES, NGRAM, Ngrams, parse_ngrams
from stream_apple.learners.declaration import IntegerBounds, NumberBounds, Option, declarations_of

Method = Literal["apple", "linear", "quadratic", "cubic"]
Loss = Literal["squared", "logistic", "softmax"]
Combine = Literal["mix", "off"]
Selection = Literal["evidence", "weight", "ssm"]
Descent = Literal["adaptive", "plain"]
Discretise = Literal["none", "spline"]
Drift = Literal["ignore", "restart"]
Votes = Literal["all", "sampled"]
StackLoss = Literal["plain", "clipped", "log"]
OnOff = Literal["off", "on"]

BITS = IntegerBounds(8, 30)
ALPHA = NumberBounds(0, 2)
LEARNING_RATE = NumberBounds(0, 1000)
CLASSES = IntegerBounds(2, 1000)
"""Of softmax; the other losses have 0."""
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them


@dataclass(frozen=True)
class DeclaredOptions:
    """The options as they are declared; `Options` checks them, and replaces None by what goes with the others."""

    method: Annotated[Method, Option("Which products of features are learned.")] = "apple"
    """Which products of features are learned, besides the features themselves. `apple`: those that prove useful while
    the stream runs. `linear`: none. `quadratic`: all of two features; `cubic`: also all of three."""
    loss: Annotated[Loss, Option("The loss that is minimised.")] = "squared"
    """The loss that is minimised: `squared` for labels that are amounts; `logistic` for two labels, 1 and either -1 or
    0; `softmax` for labels that are one of `classes`."""
    classes: Annotated[
        int,
        Option(
            "With --loss softmax: labels are whole numbers from 0 to CLASSES - 1.",
            IntegerBounds(0, CLASSES.high),
            first=0,
        ),
    ] = 0
    """How many classes there are with `loss = "softmax"`, 2 to 1000; with another loss it is 0. Labels are whole
    numbers from 0 to classes - 1, which exclude each other and have no order. A prediction is the most probable class,
    with its probability. For two classes `logistic` is better: it mixes six predictors, softmax three. Each class adds
    20 bytes to a slot (8 with method `linear`, 16 with other methods or `combine = "off"`), so many classes need few
    `bits`. Time is proportional to classes times features."""
    bits: Annotated[int | None, Option("The table has 2^bits slots.  [default: 18, cubic 24]", BITS)] = None
    """The size of the table: 2^bits slots of 32 bytes for each partition, and a monomial takes one of them. With
    `combine = "mix"` a base feature takes 16 bytes more. The default is 18; it is 24 with method `cubic`. A full table
    evicts what is least useful."""
    learning_rate: Annotated[
        float | None,
        Option("Step size.  [default: 0.5, of mixed classes 0.75]", LEARNING_RATE),
    ] = None
    """The size of the adaptive update's steps. With `combine = "mix"` it hardly matters, except with `loss =
    "softmax"`, where only three predictors learn, all at this rate: there the default is 0.75, and elsewhere 0.5. On
    twelve sets of 2 to 10 classes 0.75 took 5 % off the loss, 1 % off the errors and 3 % off the features; with 29
    classes it added 2.5 % and .4 %. Twice the default took 7 % off the loss of the twelve, but added up to 4 % where
    labels are noisy."""
    combine: Annotated[
        Combine | None,
        Option(
            "Publish a mixture of predictors (mix), or apple's own score as in the paper (off).  "
            "[default: mix with apple]",
            first="off",
        ),
    ] = None
    """What is published. `mix`: the mixture of six predictors, which all learn. It is never noticeably worse than the
    linear one, at any learning rate. `off`: the score of the paper's learner, as before this setting existed; the other
    methods have only that, by default."""
    alpha: Annotated[
        float,
        Option(
            "An epoch adds PARENTS * s^ALPHA parents; s is the mean number of features of an example.",
            ALPHA,
            expert=True,
        ),
    ] = 1.0
    """How many parents the end of an epoch adds: parents * s^alpha, where s is the mean number of features of an
    example, in a mixture at least 12."""
    parents: Annotated[
        float | None,
        Option(
            "The factor PARENTS of --alpha.  [default: 2 in a mixture, else 1]",
            NumberBounds(0, 100),
            first=1.0,
            expert=True,
        ),
    ] = None
    """The factor in `alpha`. The default is 2, and 1 with `combine = "off"`."""
    selection: Annotated[
        Selection | None,
        Option(
            "How parents are chosen. ssm, the paper's other heuristic, needs --combine off.  [default: evidence in a "
            "mixture, else weight]",
            first="weight",
            expert=True,
        ),
    ] = None
    """How the end of an epoch chooses parents with method `apple`. `evidence`, the default of a mixture: by weight
    times scale, with less for monomials that were seen seldom. `weight`, the default of `combine = "off"`: by weight
    times scale. `ssm`: by the squared residuals of its examples, the paper's other heuristic (`combine = "off"`; 16
    bytes a slot more). The default is best as a rule."""
    product_budget: Annotated[
        int | None,
        Option(
            "Growth allows so many products an example on average; 0: no limit.  [default: 1000 in a mixture, else 0]",
            IntegerBounds(0, MAX_FEATURES_PER_EXAMPLE.high),
            first=0,
            expert=True,
        ),
    ] = None
    """How many features an example may have on average from products of parents; time is proportional to it. When it is
    used up, the parents that earn least make room. The default is 1000, or 500 with splines and
    `budget_per_feature = 0`. 0: no limit, the only choice with `combine = "off"`."""
    budget_per_feature: Annotated[
        float | None,
        Option(
            "Growth allows so many products for each base feature of an example; 0: see --product-budget.  "
            "[default: 16 in a mixture, else 0]",
            NumberBounds(0, 1000, closed=True),
            first=0.0,
            expert=True,
        ),
    ] = None
    """How many products of parents growth allows for each base feature that an example has on average: at least 250 in
    all, and at most `product_budget`. Examples of few features need few products, and time is proportional to them.
    Only products that have proved useful get all of it: as far as the mixture still trusts its linear predictor, growth
    keeps to two fifths. On forty sets of up to 8,000 examples error rates with 12, 16 and 20 were alike, at 1, 1.1 and
    1.2 times the time; on 200,000 examples whose labels need pairs of 20,000 words the losses were .390, .372 and .367.
    0: growth keeps to `product_budget`, as it does if only that is set."""
    max_degree: Annotated[
        int | None,
        Option(
            "Products have at most so many factors.  [default: 4 in a mixture, else 250]",
            IntegerBounds(1, 250),
            first=250,
            expert=True,
        ),
    ] = None
    """The most factors that a product has with method `apple`. On forty sets the errors with 4 were those without a
    bound, and those with 2 were 3.5 % higher. Products of more factors can't be read, and add nothing."""
    votes: Annotated[
        Votes | None,
        Option(
            "Products ask for slots in all examples, or in one of four (sampled).  "
            "[default: sampled in a mixture, else all]",
            first="all",
            expert=True,
        ),
    ] = None
    """In which examples a product of parents without a slot asks for one. `all`: in each. `sampled`: in one of four,
    from the 16,384th example on, where it counts twice as much. If most products of an example have no slot, `sampled`
    takes a fifth less time: on 200,000 examples of 57 of 20,000 words the loss was .2891 for .2883. If most have one,
    both take the same."""
    shrinkage: Annotated[
        float | None,
        Option(
            "Small weights shrink by w^2 / (w^2 + SHRINKAGE) in one predictor; 0: a fast linear one in its place.  "
            "[default: 0.001 in a mixture]",
            NumberBounds(0, 1, closed=True),
            first=0.0,
            expert=True,
        ),
    ] = None
    """How much the mixture's last predictor shrinks small weights, which are mostly noise: to w * w^2 / (w^2 +
    shrinkage), w being the average weight of a feature at its largest value. On forty sets errors were .3 % lower, and
    on 200,000 examples whose labels need pairs of 20,000 words the loss was .362 for .370; with 0.0003 and 0.003 it was
    much the same. 0: a linear predictor at ten times the learning rate in its place, as in the first version; the only
    choice with `combine = "off"` or `loss = "softmax"`."""
    stack_loss: Annotated[
        StackLoss | None,
        Option(
            "What the mixture's stack learns from: with --loss squared the loss of its score (plain) or of the clipped "
            "score; with softmax its log loss, or there is none (plain).  [default: clipped or log in a mixture]",
            first="plain",
            expert=True,
        ),
    ] = None
    """The loss by which the stack learns: it combines the scores of the mixture's predictors. With `loss = "squared"`
    it is `clipped`, that of the combined score within the smallest and the largest label, which is how it is published,
    or `plain`, that of the score before, to which 1.2 is as wrong as 0.8 if labels are at most 1; as in the first
    version. On 21 sets of two labels errors were 2 % and losses 4 % lower with `clipped`. Of amounts few are the
    smallest or the largest, so it makes no difference. With `loss = "softmax"` it is `log`, that of the combined
    probabilities; with `plain` there is no stack, as in the first version, and apple takes its place."""
    early_growth: Annotated[
        int | None,
        Option(
            "A model also grows after so many examples, and each time that they have doubled; 0: it does not.  "
            "[default: 60 in a mixture, else 0]",
            IntegerBounds(0, 1_000_000_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = None
    """A new model need not wait for its first epoch to end: it also grows, by a quarter of the parents, when it has
    learned this many examples, twice as many, four times as many, and so on, and again so after each restart (`drift`).
    Half of these new parents are base features. Where base features are rare (more than ten of them for each that an
    example has) a model does not grow early. On 39 sets of up to 8,000 examples, in six epochs, errors were 7 % lower.
    0: a model grows only when epochs end."""
    rehearsal: Annotated[
        OnOff | None,
        Option(
            "Learn the latest examples again when a model grows early, the first when numbers are centred or cut.  "
            "[default: on in a mixture]",
            first="off",
            expert=True,
        ),
    ] = None
    """Whether examples are learned again when they get new features: the first ones when numbers are centred, and when
    they are cut, and the latest, up to 1,024, after each early growth. Otherwise new features would start from nothing,
    though examples with them are known (rehearsal: Robins 1995). Examples of one label are not learned again. Shares
    and stack of the mixture learn from each example once. On 41 sets of up to 8,000 examples errors were 6 % lower, on
    20 others 9 %. `off`: each example is learned once, as in the first version; the only choice with
    `combine = "off"`."""
    label_units: Annotated[
        int | None,
        Option(
            "With --loss squared: learn labels in units of the standard deviation of the first so many; 0: as they "
            "are.  [default: 10 in a mixture, else 0]",
            IntegerBounds(0, 10_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = None
    """With `loss = "squared"`: labels are learned less their mean and in units of their standard deviation, both those
    of the first this many labels, so that prices in cents and fractions of one are learned equally fast. Predictions
    and losses are in the units of the labels. On nine sets of amounts the loss was .54 times that without (geometric
    mean). Labels that are 0 or 1, or -1 or 1, are learned as -1 and 1 from the start. 0: labels are learned as they
    are, as in the first version."""
    drift: Annotated[
        Drift | None,
        Option(
            "When losses have risen for good, learn fast again (restart), or go on (ignore).  "
            "[default: restart in a mixture]",
            first="ignore",
            expert=True,
        ),
    ] = None
    """What the model does when its loss has risen by more than chance explains (ADWIN: Bifet, Gavalda 2007). `restart`:
    it multiplies all weights by how far its scores still hold on the latest examples, from 1 (as before) to -1 (turned
    over); the less they hold, the faster it then learns and grows. After all labels were flipped in the middle of three
    streams of 8,000 examples, the error rate was back after 301, 281 and 279 examples; with `ignore` after 2,622, 1,902
    and 2,569. `ignore`: nothing; the only choice with `combine = "off"`."""
    fallback: Annotated[
        bool,
        Option(
            "One new parent of an epoch is the first of the smallest degree (the paper's rule).",
            first=False,
            expert=True,
            section="",
        ),
    ] = False
    descent: Annotated[
        Descent,
        Option(
            "plain: gradient descent as in the paper's Theorem 1, with --combine off --loss logistic --l2 NUMBER.",
            first="adaptive",
            expert=True,
            section="",
        ),
    ] = "adaptive"
    """`plain` is gradient descent with steps of 1 / (l2 * (t + 1)), for which Theorem 1 of Agarwal et al. 2014 holds:
    it has no learning rate, and minimises the mean loss + l2 * |w|^2 / 2, the constant's weight included. The weights
    in the table then mean something only by their order."""
    l2: Annotated[
        float,
        Option(
            "With --descent plain: the strength of the L2 regularization.",
            NumberBounds(0, 1000, closed=True),
            first=0.0,
            expert=True,
            section="",
        ),
    ] = 0.0
    ngrams: Annotated[
        Mapping[str, int] | Ngrams,
        Option(
            f"Make features of two to N (at most {NGRAM.high}) neighbours in NAMESPACE, in the order of the file; "
            f"{ALL_NAMESPACES!r} stands for every other namespace, and nothing before the = for features without one.",
            NGRAM,
            first=(),
            expected=f"namespaces and numbers up to {NGRAM.high}, as in {{ text = 2 }}, or text=2 in the environment",
            parse=parse_ngrams,
            metavar="NAMESPACE=N,...",
        ),
    ] = ()
    """In which namespaces neighbours are features too, as with Vowpal Wabbit's `--ngram`: with `{ text = 2 }` each two
    features of `text` that follow each other in the message are, with 3 each three as well. `"*"` is every namespace
    that is not named, `""` the features without one; 1 exempts a namespace from `"*"`. Use it for text whose words come
    in their order, if pairs say what single words don't: on 10,605 sentences about films AUC rose from .807 to .813
    with `linear` and from .814 to .823 with `apple`, at twice the features. If the order means nothing, as where words
    are sorted by number, it costs: 20news so sorted fell from .964 to .959. See *Words side
    by side* in `docs/choosing-a-learner.md`."""
    discretise: Annotated[
        Discretise | None,
        Option(
            "Learn numbers as values and splines, or as they are (none).  [default: spline in a mixture]",
            first="none",
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
            IntegerBounds(0, 10_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = 2_000
    """How many examples of a partition that have no label yet are remembered, by their `id` and with their scores. When
    a record of the same id brings the label, the published score is judged (`stream_apple_asked_loss`), and a mixture
    learns from these scores which predictor to trust, as they are the ones that were used. If more are waiting, a
    sample is remembered: one id of two, of four, and so on up to 64. At most 2,000 with `discretise`. Not with `loss =
    "softmax"`."""
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
FIRST = {name: each.option.first for name, each in DECLARED.items() if each.option.first is not None}
"""What the first version did before these were options: its models are named without them."""
