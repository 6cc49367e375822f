"""New models: the arrays that their options ask for, and the rule by which they learn."""

import numpy as np

from stream_apple.learners.apple.kernels.mixture import empty_mixture
from stream_apple.learners.apple.multiclass.process import empty_class_mixture
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.apple.state.model import (
    ExpansionRule,
    LearningRule,
    Model,
    ModelScalars,
)
from stream_apple.learners.apple.state.recent import empty_recent
from stream_apple.learners.apple.state.table import Extent, empty_table
from stream_apple.learners.apple.state.watch import empty_watch
from stream_apple.learners.apple.state.work import Work, empty_work

_MAX_DEGREES: dict[Method, int] = {"linear": 1, "quadratic": 2, "cubic": 3}


def empty_model(options: Options, *, roles: bool) -> Model:
    """Return a model that has learned nothing.

    roles  whether features may have roles
    """
    mixed = options.mixed
    return Model(
        table=empty_table(int(options.bits or 0), extent_of(options)),
        scalars=ModelScalars(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(4, np.int64), np.zeros(4, np.int64)),
        rule=_rule_of(options),
        mixture=empty_class_mixture(mixed=mixed) if options.classes else empty_mixture(mixed=mixed),
        recent=empty_recent(mixed=mixed, roles=roles),
        watch=empty_watch(),
    )


def empty_scratch(options: Options, longest: int) -> Work:
    """Return scratch for examples of up to `longest` base features."""
    return empty_work(options.max_features_per_example, longest)


def extent_of(options: Options) -> Extent:
    """Return which side arrays the table of a model with these options has."""
    return Extent(
        mixed=options.mixed,
        linear=options.method != "linear",
        residuals=options.selection == "ssm",
        class_columns=options.class_blocks * options.classes,
    )


def _rule_of(options: Options) -> LearningRule:
    return LearningRule(
        loss=options.objective.number,
        rate=float(options.learning_rate or 0.0),
        expansion=ExpansionRule(
            exhaustive=options.method in {"quadratic", "cubic"},
            max_degree=int(options.max_degree or 0) if options.method == "apple" else _MAX_DEGREES[options.method],
            max_features=options.max_features_per_example,
        ),
        alongside=options.method != "linear",
        mixed=options.mixed,
        restarts=options.drift == "restart",
        theorem_1_lambda=options.theorem1_lambda if options.steps == "theorem1" else 0.0,
        classes=options.classes,
    )
