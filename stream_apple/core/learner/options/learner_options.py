"""All options of a learner, and what of them names a model."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from stream_apple.core.learner.options.bounds import IntegerBounds, NumberBounds
from stream_apple.core.learner.options.collisions import Collision
from stream_apple.core.learner.options.discretisation import Discretisation
from stream_apple.core.learner.options.multi_class import MultiClass
from stream_apple.core.learner.options.ngrams import Ngrams
from stream_apple.core.learner.options.personalisation import Personalisation
from stream_apple.core.learner.options.regularisation import Regularisation
from stream_apple.core.learner.options.tuple_options import TupleOptions
from stream_apple.core.learner.options.warm_start import WarmStartOptions

Method = Literal["apple", "linear", "quadratic", "cubic", "tuples"]
Loss = Literal["squared", "logistic", "softmax"]
Combine = Literal["mix", "off"]
Selection = Literal["evidence", "weight", "ssm", "mi", "cv"]


BITS = IntegerBounds(8, 30)
ALPHA = NumberBounds(0, 2)
LEARNING_RATE = NumberBounds(0, 1000)
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them
PARENTS = NumberBounds(0, 100)
PRODUCT_BUDGET = IntegerBounds(0, MAX_FEATURES_PER_EXAMPLE.high)


# Of what `state/table.py` and `state/work.py` make, which can't be imported here.
_SLOT_BYTES, _COMPANION_BYTES, _RESIDUALS_BYTES, _COUNTS_BYTES = 32, 16, 16, 32
_BUCKET_BYTES = 10  # a word of tags, and at most two bytes of the admission filter
_SCRATCH_BYTES = 92  # for each feature of an example
_ORIGINS_BYTES = 48  # likewise, if examples are counted by label
_TUPLE_NODE_BYTES, _ABLATION_BYTES = 24, 8
_PLACE_BYTES = 4  # of each slot, where features share them
_PREPARED_BYTES = 30 << 20  # of what `preparation/preparation.py` makes at once

_PLAIN = {"combine": "off", "parents": 1.0, "product_budget": 0}
"""The learner of the paper, and of the first version."""
_MIXED = {"combine": "mix", "parents": 2.0, "product_budget": 1000}

_BUDGET_OF_BOTH = 500
"""With values and their intervals, whose products are many: a tenth of the speed is worth more than the rest."""

_FIRST: dict[str, object] = {
    **_PLAIN,
    "selection": "weight",
    "fallback": False,
    **Regularisation.FIRST,
    **Discretisation.FIRST,
    **WarmStartOptions.FIRST,
    **TupleOptions.FIRST,
    **MultiClass.FIRST,
    **Personalisation.FIRST,
    **Collision.FIRST,
    **Ngrams.FIRST,
}
"""What the first version did before these were options: its models are named without them."""


def _bits_of(method: Method, order: int) -> int:
    """The default size of the table."""
    if method == "cubic":
        return 24
    return 22 if order > 2 else 18


@dataclass(frozen=True)
class Options(
    Regularisation, Discretisation, WarmStartOptions, TupleOptions, MultiClass, Personalisation, Collision, Ngrams
):
    """What defines a model, besides its examples. Two learners of equal options and examples are equal to the bit.

    Further options stand with what they are about, in the classes that this one is made of.

    A value out of its bounds raises ValueError. None is replaced by the default that goes with the other options:
    those of method apple are `combine = "mix"` and what goes with it; with `combine = "off"`, and for the other
    methods, the plain learner's.

    bits            the table has 2^bits slots; 18, 24 for method cubic (Agarwal et al. 2014, section 3.1), and 22 for
                    tuples of more than two
    alpha           floor(parents * s^alpha) monomials become parents when an epoch ends; s is the mean number of
                    non-zeros
    combine         mix: learn six predictors and publish their mixture; off: publish apple's own score
    parents         see alpha; 2 in a mixture, else 1
    selection       evidence: by weight times scale, less for monomials seen seldom; weight: without that; ssm: by the
                    share of squared residuals that the monomial explains (the paper's heuristic of that name); mi: by
                    the mutual information of its presence and the label. Of method tuples, how tuples are scored
                    where some are left out: mi: by their mutual information with the label, the default with logistic
                    loss; cv: by the loss without them
    product_budget  products looked up an example, in the mean; growth keeps to it; 0: no limit; mixture 1000, or 500
                    with discretise = auto, else 0
    fallback        one of an epoch's parents is the first non-parent of the smallest degree (the paper's rule)
    """

    method: Method = "apple"
    loss: Loss = "squared"
    bits: int | None = None
    alpha: float = 1.0
    learning_rate: float = 0.5
    max_features_per_example: int = 65_536
    combine: Combine | None = None
    parents: float | None = None
    selection: Selection | None = None
    product_budget: int | None = None
    fallback: bool = False

    def __post_init__(self) -> None:
        self._check_choice("method", Method)
        self._fill()
        for name, kind in (("loss", Loss), ("combine", Combine), ("selection", Selection)):
            self._check_choice(name, kind)
        for name, bounds in (
            ("bits", BITS),
            ("alpha", ALPHA),
            ("learning_rate", LEARNING_RATE),
            ("max_features_per_example", MAX_FEATURES_PER_EXAMPLE),
            ("parents", PARENTS),
            ("product_budget", PRODUCT_BUDGET),
        ):
            if not bounds.hold(value := getattr(self, name)):
                raise ValueError(f"Options.{name}: expected {bounds}, found {value!r}")
        if self.method != "apple" and self.combine == "mix":
            raise ValueError(f"Options.combine: expected off with method {self.method}, found 'mix'")
        self._check_selection()
        if self.combine == "off" and self.product_budget:
            raise ValueError(f"Options.product_budget: expected 0 with combine = off, found {self.product_budget}")
        self._check_discretisation()
        self._check_warm_start(loss=self.loss, descent=self.descent)
        self._check_tuples(tuples=self.method == "tuples")
        if self.method == "tuples":
            self._refuse_growth()
        self._check_collisions()
        self._check_classes(self.loss)
        self._check_ngrams(self.method, self.personalise)
        self._check_regularisation(mixed=self.combine == "mix", loss=self.loss)
        if self.ablated and self.warm_start != "none":  # most of what a tuple says is in the start
            raise ValueError(f"Options.selection: expected mi with warm_start = {self.warm_start}, found 'cv'")

    @property
    def mixed(self) -> bool:
        """Whether several predictors are learned, and their mixture is published."""
        return self.combine == "mix"

    @property
    def _mixes(self) -> bool:
        return self.method == "apple" and self.combine != "off"

    @property
    def usual_selection(self) -> Selection:
        """The selection that goes with the other options."""
        if self.method == "tuples":
            return "mi" if self.loss == "logistic" else "cv"
        return "evidence" if self._mixes else "weight"

    @property
    def counted(self) -> bool:
        """Whether examples are counted by label beside slots."""
        chosen_by = self.selects_tuples or (self.selection == "mi" and self.method != "tuples")
        return chosen_by or self.warm_start != "none"

    @property
    def ablated(self) -> bool:
        """Whether what each monomial adds to predictions is measured beside slots."""
        return self.selects_tuples and self.selection == "cv"

    def wanted_columns(self) -> frozenset[str]:
        """The fields of its batches that are filled for it alone: names of `spaces`, `attributes`, `users`."""
        wanted = {"attributes"} if self.method == "tuples" else set()
        wanted |= {"spaces"} if self.discretise_namespaces or self.ngrams else set()
        return frozenset(wanted) | self._columns_of_users()

    @property
    def class_blocks(self) -> int:
        """How many numbers a class has beside each slot, see `multiclass/layout.py`."""
        return 0 if not self.classes else 5 if self.mixed else 2 if self.method == "linear" else 4

    def model_bytes(self) -> int:
        """Memory of a model when its table is full: mostly 2^bits slots, each with all that belongs to it."""
        slots = 1 << int(self.bits or 0)
        each = _SLOT_BYTES + (_COMPANION_BYTES if self.mixed else 0) + self._stamps_bytes(mixed=self.mixed)
        table = slots * each + slots // 8 * _BUCKET_BYTES
        residuals = slots * _RESIDUALS_BYTES if self.selection == "ssm" else 0
        counts = slots * _COUNTS_BYTES if self.counted else 0
        scratch = _SCRATCH_BYTES + (_ORIGINS_BYTES if self.counted else 0)
        scratch += _TUPLE_NODE_BYTES if self.method == "tuples" else 0
        ablations = slots * _ABLATION_BYTES if self.ablated else 0
        beside = residuals + counts + ablations + self._discretisation_bytes()
        beside += slots * 4 * self.classes * self.class_blocks
        beside += slots * _PLACE_BYTES if self.collisions == "share" else 0
        if self.personalise or self.ngrams:  # examples become as long before they are expanded, many at once
            scratch += _SCRATCH_BYTES
            beside += _PREPARED_BYTES
        return table + beside + self.max_features_per_example * scratch

    def identity(self) -> dict[str, Any]:
        """What names a model: all options but those that have the value that they had before they were options."""
        found = asdict(self)
        named = {name: value for name, value in found.items() if name not in _FIRST or value != _FIRST[name]}
        # As it is read back from a message, where it may be compared.
        return named | {"ngrams": dict(self.ngrams)} if self.ngrams else named

    def _check_choice(self, name: str, kind: Any) -> None:  # noqa: ANN401  a Literal
        value, choices = getattr(self, name), get_args(kind)
        if value not in choices:
            raise ValueError(f"Options.{name}: expected one of {', '.join(choices)}, found {value!r}")

    def _check_selection(self) -> None:
        if self.method == "tuples":
            if self.selection not in {"mi", "cv"}:
                raise ValueError(f"Options.selection: expected mi or cv with method tuples, found {self.selection!r}")
            others = "cv"
        else:
            if self.selection == "cv":
                raise ValueError(
                    f"Options.selection: expected cv with method tuples alone, found it with {self.method}"
                )
            others = "evidence, weight or ssm"
        if self.selection == "mi" and self.loss != "logistic":
            raise ValueError(f"Options.selection: expected {others} with loss {self.loss}, found 'mi'")
        if self.combine == "mix" and self.selection == "ssm":
            raise ValueError("Options.selection: expected evidence, weight or mi with combine = mix, found 'ssm'")
        if self.combine == "off" and self.selection == "evidence":
            raise ValueError("Options.selection: expected weight, ssm or mi with combine = off, found 'evidence'")

    def _refuse_growth(self) -> None:
        """ValueError for what says how apple grows, and for a descent that is not meant for tuples."""
        for name, first in (("alpha", 1.0), ("parents", 1.0), ("fallback", False), ("descent", "adaptive")):
            if (found := getattr(self, name)) != first:
                raise ValueError(f"Options.{name}: expected {first!r} with method tuples, found {found!r}")

    def _fill(self) -> None:
        """Replace what is None."""
        self._fill_order(tuples=self.method == "tuples")
        defaults = {"bits": _bits_of(self.method, int(self.order or 0))} | (_MIXED if self._mixes else _PLAIN)
        defaults["selection"] = self.usual_selection
        if self._mixes and self.discretise == "auto":
            defaults["product_budget"] = _BUDGET_OF_BOTH
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
