"""The defaults that depend on other options: one table. Any other default is in its option's declaration."""

from typing import NamedTuple

from stream_apple.learners.apple.options.conditions import Condition, Where, conditions
from stream_apple.learners.apple.options.declared_options import DECLARED, FIRST


class Default(NamedTuple):
    """A row of the table: an option that was not given has this value where all of `where` hold."""

    option: str
    value: object
    where: tuple[Condition, ...]

    def holds_of(self, options: object) -> bool:
        """Return whether all that the row asks for holds in these options."""
        return all(each.holds_of(options) for each in self.where)


def fill_defaults(options: object) -> None:
    """Replace each option that is None, in place, by its default."""
    for row in DEFAULTS:
        if getattr(options, row.option) is None and row.holds_of(options):
            object.__setattr__(options, row.option, row.value)


def default_of(option: str, options: object) -> object:
    """Return the default that an option would have with these options, which are filled."""
    return next(row.value for row in DEFAULTS if row.option == option and row.holds_of(options))


def _row(option: str, value: object, where: Where | None = None) -> Default:
    return Default(option, value, conditions(where or {}))


_MIX: Where = {"combine": ("mix",)}
_SQUARED: Where = {"loss": ("squared",)}
_SOFTMAX: Where = {"loss": ("softmax",)}
_NO_CLASSES: Where = {"loss": ("squared", "logistic")}
_SPLINES: Where = {"discretise": ("spline",)}

DEFAULTS: tuple[Default, ...] = (
    _row("combine", "mix", {"method": ("apple",)}),
    _row("bits", 24, {"method": ("cubic",)}),
    _row("bits", 18),
    _row("learning_rate", 0.75, _MIX | _SOFTMAX),
    _row("learning_rate", 0.5),
    _row("selection", "evidence", _MIX),
    _row("discretise", "spline", _MIX),
    _row("parents", 2.0, _MIX),
    _row("max_degree", 4, _MIX),
    _row("votes", "sampled", _MIX),
    _row("early_growth", 60, _MIX),
    _row("budget_per_feature", 16.0, _MIX | {"product_budget": (None,)}),  # a budget that was asked for holds as it is
    _row("product_budget", 500, _MIX | _SPLINES | {"budget_per_feature": (0,)}),
    _row("product_budget", 1000, _MIX),
    _row("rehearsal", "on", _MIX),
    _row("shrinkage", 0.001, _MIX | _NO_CLASSES),
    _row("drift", "restart", _MIX),
    _row("label_units", 10, _MIX | _SQUARED),
    _row("stack_loss", "clipped", _MIX | _SQUARED),
    _row("stack_loss", "log", _MIX | _SOFTMAX),
    *(_row(name, FIRST[name]) for name, each in DECLARED.items() if each.default is None and name in FIRST),
)
"""The first row that holds counts. Rows are read in their order, and see what those above have filled. Where no row of
an option holds, it has the value that stands for its absence in the first version."""
