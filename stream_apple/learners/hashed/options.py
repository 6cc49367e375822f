"""The options of the learner `hashed`: their declarations, and what follows from them.

The configuration is read before numpy and numba are loaded, so nothing here imports them.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from stream_apple.learners.declaration import IntegerBounds, NumberBounds, Option, SystemOptions, declarations_of

BITS = IntegerBounds(8, 30)
LEARNING_RATE = NumberBounds(0, 1000)
PENALTY = NumberBounds(0, 1000, closed=True)
MAX_FEATURES_PER_EXAMPLE = IntegerBounds(2, 1 << 24)  # the constant is one of them

# Sizes of the arrays of `table.py`, which can't be imported here.
_SLOT_BYTES = 20 + 4  # a slot, and its position in the example
_FEATURE_BYTES = 32  # of each feature of an example


@dataclass(frozen=True)
class HashedOptions(SystemOptions):
    """All that defines a model except its examples: models with equal options and examples are equal to the bit.

    ValueError for a value out of its bounds.
    """

    system = "hashed"

    loss: Annotated[Literal["squared", "logistic"], Option("The loss that is minimised.")] = "logistic"
    """The loss that is minimised: `logistic` for binary labels, which are 1 and either -1 or 0; `squared` for
    real-valued labels."""
    bits: Annotated[int, Option("The table has 2^bits slots.", BITS)] = 18
    """The size of the table: 2^bits slots of 24 bytes for each partition. Features whose hashes are equal share a slot
    and its weight. Choose a table with several times as many slots as there are features, because features that share
    a weight disturb each other. With `personalise` each pair of a user and a feature counts as a feature."""
    learning_rate: Annotated[float, Option("Step size.", LEARNING_RATE)] = 0.5
    """The size of steps. It rarely matters with adaptive steps. With `descent = "plain"` choose it for your data."""
    descent: Annotated[
        Literal["adaptive", "plain"], Option("Adaptive or plain steps of gradient descent.", expert=True)
    ] = "adaptive"
    """How steps are scaled. `adaptive`: each weight has its own rate, which falls with the squared gradients it has
    seen, and which does not depend on the unit of the feature. `plain`: all weights have the constant rate
    `learning_rate`, as in Cohen's lecture; values of features should be between -1 and 1."""
    l2: Annotated[float, Option("Each step shrinks all weights by this factor times its rate.", PENALTY)] = 0.0
    """L2 regularisation: each step multiplies all weights except the constant by 1 - l2 * rate. Use it if there are
    fewer examples than features. Values above 0.0001 are rarely useful."""
    l1: Annotated[float, Option("Each step moves all weights towards 0 by this times its rate.", PENALTY)] = 0.0
    """L1 regularisation: each step moves all weights except the constant towards 0 by l1 * rate, divided by the largest
    value of the feature with adaptive steps. Weights of features that say little become exactly 0. Values above 0.0001
    are rarely useful."""
    personalise: Annotated[
        str,
        Option(
            "Features of NAMESPACE name users, who have weights of their own.  [default: no users]",
            pattern=r"^\S*$",
            expected="a namespace without white space, or '' for no users",
            metavar="NAMESPACE",
        ),
    ] = ""
    """The namespace whose features name the user, such as `user`. Each user then has weights of its own in addition to
    the shared ones. Use it if users come back and the same features mean different things to them; otherwise it adds
    errors. A new user gets the score of the shared weights. Partition the topic by user, or each partition learns only
    a part of each user."""
    max_features_per_example: Annotated[
        int,
        Option(
            "Most features of an example; the others are left out.",
            MAX_FEATURES_PER_EXAMPLE,
            expert=True,
            section="limits",
            unit="features",
        ),
    ] = 65_536
    """The most features of an example, including the constant and those of users. The others are left out."""

    def __post_init__(self) -> None:
        for name, declaration in DECLARED.items():
            object.__setattr__(self, name, declaration.checked(getattr(self, name)))
        if any(letter.isspace() for letter in self.personalise):
            raise ValueError(
                f"personalise: expected {DECLARED['personalise'].option.expected}, found {self.personalise!r}"
            )

    def identity(self) -> dict[str, Any]:
        """Return all options by name: they name a model."""
        return {"system": self.system, **asdict(self)}

    def model_bytes(self) -> int:
        """Return the bytes of a model."""
        return ((1 << self.bits) + 1) * _SLOT_BYTES + self.max_features_per_example * _FEATURE_BYTES

    def wanted_columns(self) -> frozenset[str]:
        """Return which of the optional fields of batches the model needs: `spaces` if it has users."""
        return frozenset({"spaces"} if self.personalise else ())


DECLARED = {each.name: each for each in declarations_of(HashedOptions)}
"""Name -> declaration."""
