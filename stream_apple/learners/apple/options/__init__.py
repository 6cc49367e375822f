"""The options of a learner: the one place of their defaults, choices and bounds.

    declared_options.py  each option's declaration
    learner_options.py   all options, checked and completed; the name of a model, and what else follows from options
    ngrams.py            the option `ngrams`: neighbours in a text as features
    contradictions.py    which options contradict each other

The configuration and `stream-apple evaluate` are made of the declarations. A worker reads its configuration before its
heavy imports, so nothing here may import numpy or numba.
"""

from stream_apple.learners.apple.options.declared_options import (
    ALPHA,
    BITS,
    CLASSES,
    DECLARED,
    LEARNING_RATE,
    MAX_FEATURES_PER_EXAMPLE,
    DeclaredOptions,
    Discretise,
    Drift,
    LossName,
    Method,
    Selection,
)
from stream_apple.learners.apple.options.learner_options import MOST_FIRST_FEATURES, Options
from stream_apple.learners.apple.options.ngrams import ALL_NAMESPACES, parse_ngrams
from stream_apple.learners.declaration import Declaration, IntegerBounds, NumberBounds

__all__ = [
    "ALL_NAMESPACES",
    "ALPHA",
    "BITS",
    "CLASSES",
    "DECLARED",
    "LEARNING_RATE",
    "MAX_FEATURES_PER_EXAMPLE",
    "MOST_FIRST_FEATURES",
    "Declaration",
    "DeclaredOptions",
    "Discretise",
    "Drift",
    "IntegerBounds",
    "LossName",
    "Method",
    "NumberBounds",
    "Options",
    "Selection",
    "parse_ngrams",
]
