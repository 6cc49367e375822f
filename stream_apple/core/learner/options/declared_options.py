"""Each option of a learner is declared here, once: its type, bounds and default, and what it does.

The docstring below an option is its text in `docs/configuration.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from stream_apple.core.learner.options.declaration import IntegerBounds, NumberBounds, Option, declarations_of
from stream_apple.core.learner.options.ngrams import ALL_NAMESPACES, NGRAM, Ngrams, parse_ngrams

Method = Literal["apple", "linear", "quadratic", "cubic", "tuples"]
Loss = Literal["squared", "logistic", "softmax"]
Combine = Literal["mix", "off"]
Selection = Literal["evidence", "weight", "ssm", "mi", "cv"]
Descent = Literal["adaptive", "plain"]
WarmStart = Literal["none", "naive_bayes"]
Discretise = Literal["none", "quantile", "mdl", "auto", "spline"]
Collisions = Literal["evict", "share"]
Drift = Literal["ignore", "restart"]
Votes = Literal["all", "sampled"]

BITS = IntegerBounds(8, 30)
ALPHA = NumberBounds(0, 2)
LEARNING_RATE = NumberBounds(0, 1000)
CLASSES = IntegerBounds(2, 1000)
"""Of softmax; the other losses have 0."""
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them
RESERVOIR = IntegerBounds(20, 10_000)
BY_KEY = "key"
"""The user is the record's key."""


@dataclass(frozen=True)
class DeclaredOptions:
    """The options as they are declared; `Options` checks them, and replaces None by what goes with the others."""

    method: Annotated[Method, Option("What the features are.")] = "apple"
    """What is learned from: `apple` lets products of features grow; `linear` has none; `quadratic` has all products of
    two features, `cubic` also those of three; `tuples` the products of `order` features of different attributes, an
    attribute being what a name says before its first "=". For categories, and numbers in bins, of up to some dozens of
    attributes, with few values each that keep their meaning: errors on covertype were .165 with `order = 3`, .194 with
    `quadratic`, .201 with `apple`; on hands of cards .087 with pairs, .097, .255, and 0 with pairs and `warm_start`.
    Where meanings drift, `apple`: of planted categories .215 for the .265 of tuples. For thousands of words: `apple`.
    """
    loss: Annotated[Loss, Option("What is minimised.")] = "squared"
    """What is minimised: `squared` for numbers; `logistic` for labels 1, and -1 or 0; `softmax` for labels that are one
    of `classes`."""
    classes: Annotated[
        int,
        Option(
            "With --loss softmax: labels are whole numbers from 0 to CLASSES - 1.",
            IntegerBounds(0, CLASSES.high),
            first=0,
        ),
    ] = 0
    """With `loss = "softmax"` from 2 to 1000, else 0: labels are whole numbers from 0 to classes - 1, a prediction is
    the most probable class, with its probability. For labels that exclude each other and have no order; of two classes,
    `logistic` makes more, as it mixes six predictors where this mixes three, at a larger `learning_rate`. A slot
    takes 20 bytes more for each class (8 with method `linear`, 16 with others or `combine = "off"`): many classes need
    few `bits`. Time grows as classes times features.
    """
    bits: Annotated[int | None, Option("The table has 2^bits slots.  [default: 18, cubic 24]", BITS)] = None
    """The table of each partition has 2^bits slots of 32 bytes, one for each monomial; with `combine = "mix"` a base
    feature takes 16 bytes more. The default is 24 with method `cubic`, and 22 with `order` above 2."""
    learning_rate: Annotated[
        float | None,
        Option("Of the steps.  [default: 0.5, of mixed classes 0.75]", LEARNING_RATE),
    ] = None
    """The size of the adaptive update's steps. With `combine = "mix"` it hardly matters, but for classes, as
    only three predictors learn there, all at one rate: by default 0.75, else 0.5. On twelve sets of 2 to 10 classes it
    took 5 % off the loss, 1 % off the errors and 3 % off the features; with 29 it cost 2.5 % and .4 %. Twice the usual
    rate took 7 % off the loss of the twelve, but costs where labels are noisy: up to 4 %."""
    combine: Annotated[
        Combine | None,
        Option(
            "mix: publish a mixture of predictors; off: apple's own score, as in the paper.  [default: apple mix]",
            first="off",
        ),
    ] = None
    """What is published. `mix`: six predictors learn, and their mixture is never noticeably worse than the linear one,
    at any learning rate. `off`: the plain learner of the paper, and of models made before this setting was there; the
    only choice, and the default, of the other methods."""
    alpha: Annotated[float, Option("--parents times s^alpha parents an epoch.", ALPHA, expert=True)] = 1.0
    """An epoch's end adds parents * s^alpha parents, where s is the mean number of features of an example."""
    parents: Annotated[
        float | None,
        Option("See --alpha.  [default: 2 in a mixture, else 1]", NumberBounds(0, 100), first=1.0, expert=True),
    ] = None
    """See `alpha`. The default is 1 with `combine = "off"`."""
    selection: Annotated[
        Selection | None,
        Option(
            "How parents are chosen; ssm is the paper's other heuristic, with --combine off; mi and cv are for "
            "--method tuples, mi for apple too, with --loss logistic.  [default: evidence in a mixture, else weight; "
            "tuples mi, cv with squared loss]",
            first="weight",
            expert=True,
        ),
    ] = None
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
    product_budget: Annotated[
        int | None,
        Option(
            "Mean features an example that growth keeps to; 0: no limit.  [default: 1000 in a mixture, else 0]",
            IntegerBounds(0, MAX_FEATURES_PER_EXAMPLE.high),
            first=0,
            expert=True,
        ),
    ] = None
    """How many products of parents with features an example may have in the mean: time is proportional to it. When it
    is used up, the parents that earn least make room. The default is 500 with `discretise` auto or spline. 0: no limit,
    the default and only choice of `combine = "off"`."""
    budget_per_feature: Annotated[
        float | None,
        Option(
            "Growth keeps to so many products for each base feature of an example; 0: to --product-budget.  "
            "[default: 16 in a mixture, else 0]",
            NumberBounds(0, 1000, closed=True),
            first=0.0,
            expert=True,
        ),
    ] = None
    """Growth keeps to so many products for each base feature that an example has in the mean, but to 250 at least, and
    `product_budget` at most: examples of few features need few products, and time is proportional to them. All of it
    is for products that have proved that they help: of the part that linear has in the mixture it keeps to two fifths.
    On forty sets of up to 8,000 examples errors with 12, 16 and 20 were alike, at 1, 1.1 and 1.2 times the time; on
    200,000 examples whose labels need pairs of 20,000 words the losses were .390, .372 and .367. 0: growth keeps to
    `product_budget` itself, as it does if that is given."""
    max_degree: Annotated[
        int | None,
        Option(
            "Products have at most so many factors.  [default: 4 in a mixture, else 250]",
            IntegerBounds(1, 250),
            first=250,
            expert=True,
        ),
    ] = None
    """With method `apple`: products have at most so many factors. On forty sets the errors with 4 were those without a
    bound, and with 2 they were 3.5 % above: what has more factors can't be read, and adds nothing."""
    votes: Annotated[
        Votes | None,
        Option(
            "In which examples products ask for slots: all, or one of four.  [default: sampled in a mixture, else all]",
            first="all",
            expert=True,
        ),
    ] = None
    """In which examples the products of parents that have no slot ask for one: in `all`, or in one of four, `sampled`,
    in which each counts twice as much, from the 16,384th example on. Where most products of an example have no slot,
    `sampled` takes a fifth less time: on 200,000 examples of 57 of 20,000 words the loss was .2891 for .2883. Where
    most have one it makes no difference."""
    early_growth: Annotated[
        int | None,
        Option(
            "A model also grows after so many examples, and each time that they have doubled; 0: when epochs end.  "
            "[default: 60 in a mixture, else 0]",
            IntegerBounds(0, 1_000_000_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = None
    """A model grows when an epoch ends, and also, by a quarter of the parents, when it has learned so many examples,
    twice as many, four times as many, and so on: a new model need not wait for its first epoch to end. It does so anew
    after each restart (`drift`). Half of these new parents are base features. A model does not grow early where base
    features are rare, more than ten for each that an example has. On 39 sets of up to 8,000 examples, in six epochs,
    errors were 7 % lower. 0: it grows when epochs end."""
    label_units: Annotated[
        int | None,
        Option(
            "With --loss squared: labels are learned in units of the spread of the first so many; 0: as they are.  "
            "[default: 10 in a mixture, else 0]",
            IntegerBounds(0, 10_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = None
    """With `loss = "squared"`: labels are learned less their mean and in units of their standard deviation, both of the
    first so many labels, so that prices in cents and shares of one are learned equally fast. Predictions and losses are
    in the units of the labels. On nine sets whose labels are numbers the loss was .54 of that without, by geometric
    mean. Labels that are 0 or 1, or -1 or 1, are learned as -1 and 1 from the start. 0: labels are learned as they are,
    which the first version did."""
    drift: Annotated[
        Drift | None,
        Option(
            "restart: where losses have risen for good, learn fast again; ignore.  [default: restart in a mixture]",
            first="ignore",
            expert=True,
        ),
    ] = None
    """What is done when the loss has risen by more than chance explains (ADWIN: Bifet, Gavalda 2007). `restart`: all
    weights are multiplied by what of the scores still holds by the latest examples, between -1 and 1; the less that is
    the faster the model learns and grows again. After a flip of all labels in the middle of three streams of 8,000
    examples the error was as before after 279, 281 and 282 examples; without it after 2,777, 932 and 2,414. `ignore`:
    the only choice with `combine = "off"` and `loss = "softmax"`."""
    fallback: Annotated[
        bool,
        Option(
            "One parent an epoch is the first of the smallest degree (the paper's rule).",
            first=False,
            expert=True,
            section="",
        ),
    ] = False
    descent: Annotated[
        Descent,
        Option(
            "plain: that of the paper's Theorem 1, for --combine off --loss logistic --l2 NUMBER.",
            first="adaptive",
            expert=True,
            section="",
        ),
    ] = "adaptive"
    """Plain descent has steps of 1 / (l2 * (t + 1)), for which Theorem 1 of Agarwal et al. 2014 holds: it has no
    learning rate, and minimises the mean loss + l2 * |w|^2 / 2, the constant's weight included. Of weights in the table
    only the order means something."""
    l2: Annotated[
        float,
        Option(
            "Each step shrinks all weights by so much times its rate.", NumberBounds(0, 1000, closed=True), first=0.0
        ),
    ] = 0.0
    """With each step of a predictor all its weights but the constant's shrink by this much times the step's rate
    (Vowpal Wabbit's units). Set 0.0001 to 0.001 where there are fewer examples than features: on 1,000 news
    articles of 10,000 words the test loss of the mixture fell from .277 to .267. Else steps that become smaller by
    themselves are enough: on 13,000 to 20,000 examples 0.00001 changed the loss by less than .003, mostly for the
    worse, and 0.001 cost .01 to .25. It also forgets what is no longer seen."""
    l1: Annotated[
        float,
        Option(
            "Each step draws all weights to 0 by so much times its rate; products of no weight leave the table.",
            NumberBounds(0, 1000, closed=True),
            first=0.0,
        ),
    ] = 0.0
    """As `l2`, but weights are drawn to 0 by this much times the rate, over the feature's largest value, and stay
    there; an epoch's end frees the slots of products without weight. Set 0.00001 with method `apple` where features
    are many and rare, the table is too small, or the model is to be read: in the mixture 34,162 products of 20news
    became 21,809, and the test loss fell from .185 to .181; 4,618 of a9a became 3,912 at the same loss. With
    `combine = "off"` it may cost more (20news: .227 to .270; a9a: .342 to .338). 0.0001 is too much: .005 to .08. A
    slot takes 16 bytes more, 40 in a mixture."""
    order: Annotated[
        int | None,
        Option(
            "With --method tuples: products of so many features of different attributes.  [default: 2]",
            IntegerBounds(0, 4),
            first=0,
        ),
    ] = None
    """With method `tuples`: features are the base features, and the products of so many of different attributes. The
    default is 2; with 3, errors fell from .193 to .165 on covertype and from .063 to .045 on letters (12 and 16
    attributes, 30,000 and 16,000 examples), and not on two other sets, for three to four times as many features an
    example; 0 with other methods. What is too much for `limits.max_features_per_example` is left out."""
    selection_share: Annotated[
        float,
        Option(
            "With --method tuples: so many of them are kept when an epoch has ended.",
            NumberBounds(0, 1),
            first=1.0,
            expert=True,
        ),
    ] = 1.0
    """With method `tuples`: when an epoch has ended, this share of the tuples seen is kept, by `selection`, and the
    next ones learn from these alone, the others' slots being free again. For a smaller table and fewer features an
    example, not for accuracy: on four sets the errors of pairs with .6 were within .002 of those of all pairs, but on
    one that fell from .087 to .053; triples bore .3 on two of them. It takes 1,000 examples; what is left out never
    comes back; a tuple with an attribute that comes later is learned at once, and judged when the epoch ends."""
    hierarchical: Annotated[
        bool,
        Option(
            "With --selection-share: select attributes first, then pairs of those, and so on.", first=False, expert=True
        ),
    ] = False
    """With a share below 1: select attributes in the first epoch, pairs of those in the second, and so on up to
    `order`. For so many attributes that their tuples can't all be explored at once; else without it errors were smaller
    on three sets of four. It is blind to attributes that say something only together, and attributes that come later
    join no tuple."""
    warm_start: Annotated[
        WarmStart,
        Option(
            "naive_bayes: scores start from naive Bayes by the examples so far; with --loss logistic.", first="none"
        ),
    ] = "none"
    """Where scores start, before weights have learned anything (`loss = "logistic"`). `none`: at 0. `naive_bayes`: at
    naive Bayes by the examples counted so far, of pairs with `quadratic`, of triples with `cubic`, else of
    features; it is believed as far as it has proved right, and weights learn the rest. For text, with any method, and
    for categories of few values, or intervals, with `quadratic` or `cubic`, where labels go by what values say
    together. Counts do not fade: not for streams that drift, nor for categories of many values. One pass, share of
    wrong signs, `none` / `naive_bayes`: hands of cards, quadratic .207/.023 and cubic .141/.049; newsgroups, linear
    .105/.093 and in a mixture .099/.092; letter, quadratic .076/.072; mushrooms, linear .011/.005; covtype .210/.208.
    Where features are many that say the same it may cost: a9a, quadratic .154/.155. Only features of value 1 have a
    say. In a mixture the linear predictors start at 0. It takes 32 bytes a slot more, and two to three times as
    long."""
    ngrams: Annotated[
        Mapping[str, int] | Ngrams,
        Option(
            f"Neighbours in NAMESPACE are features too, two and up to N (at most {NGRAM.high}), in the order of the "
            f"file; {ALL_NAMESPACES!r} is all others, and nothing before the = features without a namespace.",
            NGRAM,
            first=(),
            expected=f"namespaces and numbers up to {NGRAM.high}, as in {{ text = 2 }}, or text=2 in the environment",
            parse=parse_ngrams,
            metavar="NAMESPACE=N,...",
        ),
    ] = ()
    """Namespaces whose neighbours are features too, as with Vowpal Wabbit's `--ngram`: with `{ text = 2 }` each two
    features of `text` that follow each other in the message, with 3 each three as well. `"*"` is all namespaces that
    are not named, `""` features without; 1 leaves one out of `"*"`. For text whose words come in their order, where
    pairs say what their words don't: on 10,605 sentences about films, AUC .807 → .813 with `linear`, .814 → .823
    with `apple`, at twice the features. Not where the order means nothing, as of words that are sorted by number:
    20news so sorted, .964 → .959. Not with method `tuples`. See *Words side by side* in
    `docs/choosing-a-learner.md`."""
    discretise: Annotated[
        Discretise | None,
        Option(
            "What numbers become: intervals (quantile, mdl), or stay beside them (auto) or beside splines.  "
            "[default: spline in a mixture]",
            first="none",
        ),
    ] = None
    """What a numeric feature is learned as. `none`: its value. `quantile`: the interval that its value lies in,
    between quantiles; `mdl`: between cuts that tell labels apart, so features that tell nothing stay values. `auto`:
    both, the value less its mean, in units of its deviation, and its interval. `spline`: that value, and how near it is
    to each of the two points that it lies between, of six in all, so that what is learned of it has no jumps; the
    default of a mixture. On 40 sets errors with `auto` were 11 % above, at nine tenths of the time, and with `none`
    45 % above, at two thirds. `quantile` is the fastest, and better than values for quadratic and cubic. Text and 0/1
    features stay as they are. One shuffled pass over 8,000 examples, share of wrong signs without any tuning, `none` /
    `quantile` / `auto` / `spline`: covtype .293/.255/.238/.230, magic04 .181/.172/.158/.146, letter
    .188/.126/.101/.094, adult .167/.156/.162/.162. See *Numbers as intervals* in `docs/choosing-a-learner.md`."""
    bins: Annotated[
        int | None,
        Option(
            "Most intervals or points.  [default: 12, auto and spline 6]", IntegerBounds(2, 64), first=12, expert=True
        ),
    ] = None
    """Most intervals of a feature with `discretise` quantile (default 12) or auto (default 6), or most points that a
    spline has (default 6), the least and the largest value among them. More than 12 intervals were worse
    on most sets: each interval has fewer examples to learn from."""
    reservoir: Annotated[
        int | None,
        Option(
            "Cuts are made after so many examples.  [default: 500, auto 50, spline 40]",
            RESERVOIR,
            first=500,
            expert=True,
            unit="examples",
        ),
    ] = None
    """After so many learned examples cuts are made, once and for all unless `refit_epochs` says otherwise; until then
    values are learned as they are. The default is 500, 40 with `spline`, 50 with `auto`, and 150 with
    `auto` and `centre = 0`. More are worth it only where the first
    examples are not like the later ones."""
    discretise_namespaces: Annotated[
        str,
        Option(
            "With commas between: those whose numbers are discretised.  [default: all]",
            first="",
            expert=True,
            pattern=r"^\S{0,1000}$",
            expected="names with commas between, and no white space",
            metavar="NAMES",
        ),
    ] = ""
    """Names of namespaces, with commas between: only their features are discretised. Empty: those of all."""
    centre: Annotated[
        int | None,
        Option(
            "With --discretise auto or spline: numbers are centred after so many examples.  [default: 5]",
            IntegerBounds(0, RESERVOIR.high),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = None
    """With `discretise` auto or spline: after so many learned examples numbers are learned less their mean and in units
    of their standard deviation, both of the examples so far, and again each time that these have doubled, until cuts
    are made. What has the value 1 and is no number is not multiplied with itself. On forty sets the errors were 8 %
    below those of numbers that are centred when cuts are made. 0, not with `spline`: numbers are centred once, at the
    median cut, and only where there are two labels, which the first `auto` did."""
    refit_epochs: Annotated[
        int,
        Option(
            "Cuts are made anew when so many epochs have ended; 0: never.",
            IntegerBounds(0, 10_000),
            first=0,
            expert=True,
        ),
    ] = 0
    """Cuts are made anew when so many epochs have ended since they were made, of a random sample of `reservoir` of the
    examples learned since. 0: never. Use it where numbers move away from what they were when the stream began, such as
    prices, or sensors that age: one that becomes ten times as large lies in the outer intervals for ever. Cuts of a
    feature that still fit its values stay, and its intervals with all that they have learned; of one that has moved,
    the intervals are new features, and the old ones and their products lose their slots at once. Not with method
    `tuples` nor with `collisions = "share"`."""
    personalise: Annotated[
        str,
        Option(
            f"Users have weights of their own: those that the features of NAMESPACE name; or, with {BY_KEY!r}, those "
            "of the keys that `produce` would give.  [default: none have]",
            first="",
            pattern=r"^\S*$",
            expected="a namespace without white space, 'key', or '' for no user",
            metavar="NAMESPACE",
        ),
    ] = ""
    """Users with weights of their own beside the shared ones: the namespace whose features name the user, such as
    `user`, or `key` for the record's key. Use it where users come back and differ in what the same features mean to
    them: with 100 planted users, a tenth of whom mean the opposite, a quarter less spam passes at 1 % of false alarms;
    where nobody differs a third more does. A user without history gets the shared score. Partition the topic by user,
    else each partition learns a fragment of every user; `bits` has to hold users times features."""
    collisions: Annotated[
        Collisions, Option("share: the hashing trick, for --method linear and quadratic.", first="evict", expert=True)
    ] = "evict"
    """What becomes of features for which the table has no room. `evict`: the least useful makes room. `share`, for the
    methods `linear` and `quadratic`: the hashing trick, features of equal hash share a weight, which `inspect` can't
    name. With room both are the same. Use `share` for `quadratic` where products outnumber the slots by far (20news in
    2^18: test error .131, not .201); with `linear` it loses what `evict` keeps. The figures are in
    `docs/choosing-a-learner.md`."""
    pending_labels: Annotated[
        int,
        Option(
            "With --label-delay: so many examples are remembered until their labels come.",
            IntegerBounds(0, 10_000),
            first=0,
            expert=True,
            unit="examples",
        ),
    ] = 2_000
    """So many examples without a label, of each partition, are remembered by their `id` with their scores. When a
    record of such an id has a label, the score that was published is judged, `stream_apple_asked_loss`; and a mixture
    learns from these scores whom to trust, as they are what is used. Where more wait, a sample of them is
    remembered: one id of two, of four, and so on up to 64. With `discretise` at most 2,000. Not for `loss = "softmax"`.
    """
    max_features_per_example: Annotated[
        int,
        Option(
            "Features of an example after expansion, which stops there.",
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
