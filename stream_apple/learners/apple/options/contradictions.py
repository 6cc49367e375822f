"""Which options exclude each other: one table, which the check walks, the documentation shows, and a test enumerates.

Bounds of single options are in their declarations. No row repeats what another row, or those bounds, say already.
"""

from typing import NamedTuple

from stream_apple.learners.apple.options.conditions import Allowed, Condition, Except, Where, conditions, in_words
from stream_apple.learners.apple.options.declared_options import CLASSES, FIRST
from stream_apple.learners.declaration import IntegerBounds, NumberBounds

_SPOKEN = frozenset({"method", "loss"})  # options that messages name without "=": "method linear"


class Contradiction(NamedTuple):
    """A row of the table: where all of `given` holds, `demanded` must hold.

    because  why, for the documentation
    """

    given: tuple[Condition, ...]
    demanded: Condition
    because: str

    def refusal(self, options: object) -> str | None:
        """Return the fault in these options, by name; None if they do not violate this row."""
        found = getattr(options, self.demanded.option)
        if self.demanded.holds(found) or not all(each.holds_of(options) for each in self.given):
            return None
        given = " and ".join(_named(each.option, getattr(options, each.option)) for each in self.given)
        shown = dict(found) if isinstance(found, tuple) else found  # a table, as the user has written it
        return f"{self.demanded.option}: expected {self.demanded.spelled()} with {given}, found {shown!r}"


def refuse_contradictions(options: object) -> None:
    """Raise ValueError for the first row that these options violate; each is within its own bounds."""
    for row in CONTRADICTIONS:
        if (refusal := row.refusal(options)) is not None:
            raise ValueError(refusal)


def _named(option: str, value: object) -> str:
    return f"{option} {value}" if option in _SPOKEN else f"{option} = {in_words(value)}"


def _row(given: Where, option: str, values: Allowed, because: str) -> Contradiction:
    return Contradiction(conditions(given), Condition(option, values), because)


_SOFTMAX: Where = {"loss": ("softmax",)}
_PLAIN: Where = {"descent": ("plain",)}
_GROWTH = "it says how apple grows"
_ONE_SCORE = "the rest is made for labels that have one score"

CONTRADICTIONS: tuple[Contradiction, ...] = (
    _row({"method": Except("apple")}, "combine", ("off",), "the mixture is of apple's predictors"),
    _row({"combine": ("mix",)}, "selection", ("evidence", "weight"), "residuals are kept of one score"),
    _row(
        {"combine": ("off",)}, "selection", ("weight", "ssm"), "how often monomials were learned is kept in a mixture"
    ),
    _row({"combine": ("off",)}, "product_budget", (0,), "what parents earn is measured in a mixture"),
    _row({"combine": ("off",)}, "budget_per_feature", (0.0,), "what parents earn is measured in a mixture"),
    _row({"product_budget": (0,)}, "budget_per_feature", (0.0,), "0 is no limit"),
    _row({"combine": ("off",)}, "votes", ("all",), "the filter of a plain model has no votes"),
    _row({"combine": ("off",)}, "shrinkage", (0.0,), "a model of the paper has no averages"),
    _row(_SOFTMAX, "shrinkage", (0.0,), _ONE_SCORE),
    _row({"combine": ("off",)}, "stack_loss", ("plain",), "a model of the paper has one predictor"),
    _row({"combine": ("off",)}, "early_growth", (0,), "a model of the paper grows when epochs end"),
    _row({"combine": ("off",)}, "rehearsal", ("off",), "a model of the paper learns each example once"),
    _row({"combine": ("off",)}, "label_units", (0,), "a model of the paper learns labels as they are"),
    _row({"combine": ("off",)}, "drift", ("ignore",), "the slow predictors of a mixture go on as before"),
    _row({"method": Except("apple")}, "max_degree", (FIRST["max_degree"],), _GROWTH),
    _row(_PLAIN, "l2", NumberBounds(0, 1000), "steps are 1 / (l2 * (t + 1)) long"),
    _row({"descent": ("adaptive",)}, "l2", (0.0,), "it is the strength of the regularization of plain descent"),
    _row({"combine": ("mix",)}, "descent", ("adaptive",), "the mixture's predictors differ by their rates"),
    _row(
        {"loss": Except("logistic")},
        "descent",
        ("adaptive",),
        "the theorem needs a loss whose first two derivatives are at most 1",
    ),
    _row(
        {"discretise": Except("none")}, "pending_labels", IntegerBounds(0, 2_000), "one message of a snapshot has both"
    ),
    _row({"loss": Except("softmax")}, "classes", (0,), "classes are those of softmax"),
    _row(_SOFTMAX, "classes", CLASSES, "labels are whole numbers below it"),
    _row(_SOFTMAX, "selection", ("evidence", "weight"), _ONE_SCORE),
    _row({"loss": Except("squared")}, "label_units", (0,), "the labels are no amounts"),
    _row({"loss": ("squared",)}, "stack_loss", ("plain", "clipped"), "its scores are no probabilities"),
    _row({"loss": ("logistic",)}, "stack_loss", ("plain",), "its stack learns from the log loss anyway"),
    _row(_SOFTMAX, "stack_loss", ("plain", "log"), "its scores are not clipped to labels"),
)
"""The rows in the order in which they are checked: of several faults the first is reported."""
