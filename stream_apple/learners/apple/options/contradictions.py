"""Which options exclude each other: one table, which the check walks, the documentation shows, and a test enumerates.

Bounds of single options are in their declarations. No row repeats what another row, or those bounds, say already.
"""

from typing import NamedTuple

from stream_apple.learners.apple.options.conditions import Allowed, Condition, Except, Where, conditions, in_words
from stream_apple.learners.apple.options.declared_options import CLASSES, FIRST, RESERVOIR
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


_TUPLES: Where = {"method": ("tuples",)}
_NO_TUPLES: Where = {"method": Except("tuples")}
_SOFTMAX: Where = {"loss": ("softmax",)}
_PLAIN: Where = {"descent": ("plain",)}
_ABOVE_0 = NumberBounds(0, 1000)
_CENTRED = IntegerBounds(1, RESERVOIR.high)
_FOR_TUPLES = "it says which tuples are learned from"
_GROWTH = "it says how apple grows"
_NO_CUTS = "no cuts are made"
_ADAPTIVE = "the rest is made for the adaptive update"
_ONE_SCORE = "the rest is made for labels that have one score"
_TWO_LABELS = "the rest counts two kinds of labels"
_DECAYS = "weights shrink by themselves"
_ONCE = "examples are counted by label"
_OWN_SLOT = "it is kept of each feature, in a slot of its own"

CONTRADICTIONS: tuple[Contradiction, ...] = (
    _row({"method": Except("apple")}, "combine", ("off",), "the mixture is of apple's predictors"),
    _row(_SOFTMAX, "method", ("apple", "linear", "quadratic", "cubic"), _ONE_SCORE),
    _row(_TUPLES, "selection", ("mi", "cv"), "it scores tuples"),
    _row(_NO_TUPLES, "selection", ("evidence", "weight", "ssm", "mi"), "`cv` scores tuples"),
    _row(_TUPLES | {"loss": ("squared",)}, "selection", ("cv",), _TWO_LABELS),
    _row(_NO_TUPLES | {"loss": ("squared",)}, "selection", ("evidence", "weight", "ssm"), _TWO_LABELS),
    _row({"combine": ("mix",)}, "selection", ("evidence", "weight", "mi"), "residuals are kept of one score"),
    _row(
        _NO_TUPLES | {"combine": ("off",)},
        "selection",
        ("weight", "ssm", "mi"),
        "how often monomials were learned is kept in a mixture",
    ),
    _row({"combine": ("off",)}, "product_budget", (0,), "what parents earn is measured in a mixture"),
    _row({"combine": ("off",)}, "budget_per_feature", (0.0,), "what parents earn is measured in a mixture"),
    _row({"product_budget": (0,)}, "budget_per_feature", (0.0,), "0 is no limit"),
    _row({"combine": ("off",)}, "votes", ("all",), "the filter of a plain model has no votes"),
    _row({"combine": ("off",)}, "shrinkage", (0.0,), "a model of the paper has no averages"),
    _row(_SOFTMAX, "shrinkage", (0.0,), _ONE_SCORE),
    _row({"l1": _ABOVE_0}, "shrinkage", (0.0,), _DECAYS),
    _row({"l2": _ABOVE_0}, "shrinkage", (0.0,), _DECAYS),
    _row({"combine": ("off",)}, "stack_loss", ("plain",), "a model of the paper has one predictor"),
    _row({"combine": ("off",)}, "early_growth", (0,), "a model of the paper grows when epochs end"),
    _row({"combine": ("off",)}, "rehearsal", ("off",), "a model of the paper learns each example once"),
    _row({"selection": ("mi",)}, "rehearsal", ("off",), _ONCE),
    _row({"warm_start": ("naive_bayes",)}, "rehearsal", ("off",), _ONCE),
    _row({"l1": _ABOVE_0}, "rehearsal", ("off",), _DECAYS),
    _row({"l2": _ABOVE_0}, "rehearsal", ("off",), _DECAYS),
    _row({"personalise": Except("")}, "rehearsal", ("off",), "a user's features are made of what is not kept"),
    _row({"combine": ("off",)}, "label_units", (0,), "a model of the paper learns labels as they are"),
    _row({"combine": ("off",)}, "drift", ("ignore",), "the slow predictors of a mixture go on as before"),
    _row({"combine": ("off",)}, "persistence", ("off",), "a model of the paper has one predictor"),
    _row({"method": Except("apple")}, "max_degree", (FIRST["max_degree"],), _GROWTH),
    _row({"discretise": ("none", "quantile", "mdl")}, "centre", (0,), "no number is learned beside its interval"),
    _row({"discretise": ("spline",)}, "centre", _CENTRED, "numbers are centred by mean and deviation"),
    _row({"discretise": ("none",)}, "bins", (FIRST["bins"],), _NO_CUTS),
    _row({"discretise": ("none",)}, "reservoir", (FIRST["reservoir"],), _NO_CUTS),
    _row({"discretise": ("none",)}, "discretise_namespaces", ("",), _NO_CUTS),
    _row({"discretise": ("none",)}, "refit_epochs", (0,), _NO_CUTS),
    _row({"discretise": ("mdl",)}, "bins", (FIRST["bins"],), "it finds how many by itself"),
    _row({"loss": Except("logistic")}, "warm_start", ("none",), _TWO_LABELS),
    _row(_PLAIN, "warm_start", ("none",), _ADAPTIVE),
    _row(_NO_TUPLES, "order", (0,), _FOR_TUPLES),
    _row(_NO_TUPLES, "selection_share", (1.0,), _FOR_TUPLES),
    _row(_NO_TUPLES, "hierarchical", (False,), _FOR_TUPLES),
    _row(_TUPLES, "order", IntegerBounds(1, 4), "tuples have so many attributes"),
    _row({"order": (1,)}, "selection_share", (1.0,), "the features are the base features"),
    _row(_TUPLES, "alpha", (1.0,), _GROWTH),
    _row(_TUPLES, "parents", (1.0,), _GROWTH),
    _row(_TUPLES, "fallback", (False,), _GROWTH),
    _row(_TUPLES, "descent", ("adaptive",), _ADAPTIVE),
    _row(_TUPLES, "refit_epochs", (0,), "tuples are counted on the intervals of before"),
    _row(_TUPLES, "ngrams", ((),), "a text's words are no attributes"),
    _row({"method": ("apple", "cubic", "tuples")}, "collisions", ("evict",), "products of products are told by keys"),
    _row(_PLAIN, "collisions", ("evict",), _ADAPTIVE),
    _row({"selection": Except("weight")}, "collisions", ("evict",), _OWN_SLOT),
    _row({"warm_start": ("naive_bayes",)}, "collisions", ("evict",), _OWN_SLOT),
    _row({"method": ("quadratic",), "l1": _ABOVE_0}, "collisions", ("evict",), _OWN_SLOT),
    _row({"method": ("quadratic",), "l2": _ABOVE_0}, "collisions", ("evict",), _OWN_SLOT),
    _row({"collisions": ("share",)}, "refit_epochs", (0,), "weights of intervals that are gone can't be told apart"),
    _row(_PLAIN, "l2", _ABOVE_0, "steps are 1 / (l2 * (t + 1)) long"),
    _row(_PLAIN, "l1", (0.0,), _ADAPTIVE),
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
    _row(_SOFTMAX, "l1", (0.0,), _ONE_SCORE),
    _row(_SOFTMAX, "l2", (0.0,), _ONE_SCORE),
    _row(_SOFTMAX, "collisions", ("evict",), _ONE_SCORE),
    _row(
        {"selection_share": Except(1.0), "warm_start": ("naive_bayes",)},
        "selection",
        ("mi",),
        "most of what a tuple says is in the start",
    ),
)
"""The rows in the order in which they are checked: of several faults the first is reported."""
