"""The options of a learner: the one place of their defaults, choices and bounds.

    learner_options.py   all of them, and what of them names a model
    regularisation.py    how weights are held small
    discretisation.py    how values become intervals
    warm_start.py        where scores start
    tuple_options.py     which tuples of attributes are learned from
    multi_class.py       labels that are one of several classes
    personalisation.py   whether users have weights of their own
    collisions.py        what becomes of features for which there is no room
    ngrams.py            neighbours in a text as features
    bounds.py            between which numbers a value lies
    contradictions.py    which of them don't go together
    mergeability.py      with which models become one

The configuration and `stream-apple evaluate` take them from here. A worker reads its configuration before its heavy
imports, so nothing here may import numpy or numba.
"""

from stream_apple.core.learner.options.bounds import IntegerBounds, NumberBounds
from stream_apple.core.learner.options.collisions import Collisions
from stream_apple.core.learner.options.discretisation import (
    BINS,
    REFIT_EPOCHS,
    RESERVOIR,
    RESERVOIR_ENTRIES,
    Discretise,
)
from stream_apple.core.learner.options.learner_options import (
    ALPHA,
    BITS,
    LEARNING_RATE,
    MAX_FEATURES_PER_EXAMPLE,
    PARENTS,
    PRODUCT_BUDGET,
    Combine,
    Loss,
    Method,
    Options,
    Selection,
)
from stream_apple.core.learner.options.mergeability import why_not_merged
from stream_apple.core.learner.options.multi_class import CLASSES
from stream_apple.core.learner.options.ngrams import ALL_NAMESPACES, NGRAM, parse_ngrams
from stream_apple.core.learner.options.personalisation import BY_KEY
from stream_apple.core.learner.options.regularisation import L1, L2, Descent
from stream_apple.core.learner.options.tuple_options import ORDER, SELECTION_SHARE
from stream_apple.core.learner.options.warm_start import WarmStart

__all__ = [
    "ALL_NAMESPACES",
    "ALPHA",
    "BINS",
    "BITS",
    "BY_KEY",
    "CLASSES",
    "L1",
    "L2",
    "LEARNING_RATE",
    "MAX_FEATURES_PER_EXAMPLE",
    "NGRAM",
    "ORDER",
    "PARENTS",
    "PRODUCT_BUDGET",
    "REFIT_EPOCHS",
    "RESERVOIR",
    "RESERVOIR_ENTRIES",
    "SELECTION_SHARE",
    "Collisions",
    "Combine",
    "Descent",
    "Discretise",
    "IntegerBounds",
    "Loss",
    "Method",
    "NumberBounds",
    "Options",
    "Selection",
    "WarmStart",
    "parse_ngrams",
    "why_not_merged",
]
