"""All options of a learner, and what of them names a model."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from stream_apple.core.learner.options.bounds import IntegerBounds, NumberBounds
from stream_apple.core.learner.options.multi_class import MultiClass
from stream_apple.core.learner.options.regularisation import Regularisation

Method = Literal["apple", "linear", "quadratic", "cubic"]
Loss = Literal["squared", "logistic", "softmax"]
Combine = Literal["mix", "off"]
Selection = Literal["evidence", "weight", "ssm"]


BITS = IntegerBounds(8, 30)
ALPHA = NumberBounds(0, 2)
LEARNING_RATE = NumberBounds(0, 1000)
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them
PARENTS = NumberBounds(0, 100)
PRODUCT_BUDGET = IntegerBounds(0, MAX_FEATURES_PER_EXAMPLE.high)


# Of what `kernels/table.py` and `kernels/work.py` make, which can't be imported here.
_SLOT_BYTES, _COMPANION_BYTES, _RESIDUALS_BYTES = 32, 16, 16
_BUCKET_BYTES = 10  # a word of tags, and at most two bytes of the admission filter
_SCRATCH_BYTES = 84  # for each feature of an example

_PLAIN = {"combine": "off", "parents": 1.0, "selection": "weight", "product_budget": 0}
"""The learner of the paper, and of the first version."""
_MIXED = {"combine": "mix", "parents": 2.0, "selection": "evidence", "product_budget": 1000}

_FIRST: dict[str, object] = {**_PLAIN, "fallback": False, **Regularisation.FIRST, **MultiClass.FIRST}
"""What the first version did before these were options: its models are named without them."""


@dataclass(frozen=True)
class Options(Regularisation, MultiClass):
    """What defines a model, besides its examples. Two learners of equal options and examples are equal to the bit.

    Further options stand with what they are about, in the classes that this one is made of.

    A value out of its bounds raises ValueError. None is replaced by the default that goes with the other options:
    those of method apple are `combine = "mix"` and what goes with it; with `combine = "off"`, and for the other
    methods, the plain learner's.

    bits            the table has 2^bits slots; 18, and 24 for method cubic (Agarwal et al. 2014, section 3.1)
    alpha           floor(parents * s^alpha) monomials become parents when an epoch ends; s is the mean number of
                    non-zeros
    combine         mix: learn six predictors and publish their mixture; off: publish apple's own score
    parents         see alpha; 2 in a mixture, else 1
    selection       evidence: by weight times scale, less for monomials seen seldom; weight: without that; ssm: by the
                    share of squared residuals that the monomial explains (the paper's heuristic of that name)
    product_budget  products looked up an example, in the mean; growth keeps to it; 0: no limit; mixture 1000, else 0
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
        if self.combine == "mix" and self.selection == "ssm":
            raise ValueError("Options.selection: expected evidence or weight with combine = mix, found 'ssm'")
        if self.combine == "off" and self.selection == "evidence":
            raise ValueError("Options.selection: expected weight or ssm with combine = off, found 'evidence'")
        if self.combine == "off" and self.product_budget:
            raise ValueError(f"Options.product_budget: expected 0 with combine = off, found {self.product_budget}")
        self._check_classes(self.loss)
        self._check_regularisation(mixed=self.combine == "mix", logistic=self.loss == "logistic")

    @property
    def mixed(self) -> bool:
        """Whether several predictors are learned, and their mixture is published."""
        return self.combine == "mix"

    @property
    def class_blocks(self) -> int:
        """How many numbers a class has beside each slot, see `multiclass/layout.py`."""
        return 0 if not self.classes else 5 if self.mixed else 2 if self.method == "linear" else 4

    def model_bytes(self) -> int:
        """Memory of a model when its table is full: mostly 2^bits slots, each with all that belongs to it."""
        slots = 1 << int(self.bits or 0)
        table = slots * (_SLOT_BYTES + (_COMPANION_BYTES if self.mixed else 0)) + slots // 8 * _BUCKET_BYTES
        residuals = slots * _RESIDUALS_BYTES if self.selection == "ssm" else 0
        classes = slots * 4 * self.classes * self.class_blocks
        return table + residuals + classes + self.max_features_per_example * _SCRATCH_BYTES

    def identity(self) -> dict[str, Any]:
        """What names a model: all options but those that have the value that they had before they were options."""
        found = asdict(self)
        return {name: value for name, value in found.items() if name not in _FIRST or value != _FIRST[name]}

    def _check_choice(self, name: str, kind: Any) -> None:  # noqa: ANN401  a Literal
        value, choices = getattr(self, name), get_args(kind)
        if value not in choices:
            raise ValueError(f"Options.{name}: expected one of {', '.join(choices)}, found {value!r}")

    def _fill(self) -> None:
        """Replace what is None."""
        mixed = self.method == "apple" and self.combine != "off"
        defaults = {"bits": 24 if self.method == "cubic" else 18} | (_MIXED if mixed else _PLAIN)
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
