"""New models: the arrays that their options ask for, and the rule by which they learn."""

import numpy as np

from stream_apple.learners.apple.kernels.decay import decay_rule, no_decay_yet, stamps_of
from stream_apple.learners.apple.kernels.mixture import empty_mixture
from stream_apple.learners.apple.kernels.naive_bayes import FIRST_TRUST
from stream_apple.learners.apple.kernels.persistence import no_persistence
from stream_apple.learners.apple.multiclass.process import empty_class_mixture
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.apple.state.model import (
    DecayRule,
    ExpansionRule,
    LearningRule,
    Model,
    ModelScalars,
    TupleRule,
)
from stream_apple.learners.apple.state.recent import empty_recent
from stream_apple.learners.apple.state.table import Extent, empty_table
from stream_apple.learners.apple.state.work import Work, empty_work
from stream_apple.learners.apple.tuple_selection import TupleSelection
from stream_apple.learners.losses import loss_number

_MAX_DEGREES: dict[Method, int] = {"linear": 1, "quadratic": 2, "cubic": 3, "tuples": 1}
_ORDERS: dict[Method, int] = {"apple": 1, "linear": 1, "quadratic": 2, "cubic": 3}  # of the tuples of naive Bayes


def empty_model(options: Options, selection: TupleSelection, *, roles: bool) -> Model:
    """Return a model that has learned nothing.

    selection  the tuple selection, which has selected none yet
    roles      whether features may have roles
    """
    mixed = options.mixed
    return Model(
        table=empty_table(int(options.bits or 0), extent_of(options)),
        scalars=ModelScalars(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(8, np.int64)),
        rule=_rule_of(options, by_level=selection.by_level),
        mixture=empty_class_mixture(mixed=mixed) if options.classes else empty_mixture(mixed=mixed),
        persistence=no_persistence(options.classes, wanted=options.persistence == "on"),
        recent=empty_recent(mixed=mixed, roles=roles, labels=options.rehearses),
        tuples=selection.kernel_view,
        start=np.array([FIRST_TRUST, 0.0] if options.warm_start != "none" else []),
        decay=no_decay_yet(decay_of(options), mixed=mixed),
    )


def empty_scratch(options: Options, longest: int) -> Work:
    """Return scratch for examples of up to `longest` base features."""
    return empty_work(
        options.max_features_per_example,
        longest,
        counted=options.counted,
        tuples=options.method == "tuples",
        shared_slots=1 << int(options.bits or 0) if options.collisions == "share" else 0,
    )


def extent_of(options: Options) -> Extent:
    """Return which side arrays the table of a model with these options has."""
    return Extent(
        mixed=options.mixed,
        residuals=options.selection == "ssm",
        stamps=stamps_of(mixed=options.mixed) if decay_of(options).l1 > 0.0 else 0,
        counts=options.counted,
        ablations=options.ablated,
        class_columns=options.class_blocks * options.classes,
    )


def decay_of(options: Options) -> DecayRule:
    """Return the regularisation of the adaptive update; none for plain descent, which has a rule of its own."""
    return decay_rule(options.l2, options.l1) if options.descent == "adaptive" else decay_rule(0.0, 0.0)


def _rule_of(options: Options, *, by_level: bool) -> LearningRule:
    return LearningRule(
        loss=loss_number(options.loss),
        rate=float(options.learning_rate or 0.0),
        expansion=ExpansionRule(
            exhaustive=options.method in {"quadratic", "cubic"},
            max_degree=int(options.max_degree or 0) if options.method == "apple" else _MAX_DEGREES[options.method],
            max_features=options.max_features_per_example,
            hash_bits=int(options.bits or 0) if options.collisions == "share" else 0,
        ),
        tuples=TupleRule(
            order=int(options.order or 0),
            by_level=by_level,
            selecting=options.selects_tuples,
        ),
        alongside=options.method != "linear",
        mixed=options.mixed,
        warm_start=(options.order or _ORDERS[options.method]) if options.warm_start == "naive_bayes" else 0,
        plain_l2=float(options.l2) if options.descent == "plain" else 0.0,
        classes=options.classes,
        decay=decay_of(options),
        sampled_votes=options.votes == "sampled",
        shrinkage=float(options.shrinkage or 0.0),
        clipped_stack=options.stack_loss == "clipped",
        class_stack=options.stack_loss == "log",
    )
