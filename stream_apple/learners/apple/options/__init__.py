"""The options of a learner: the one place of their defaults, choices and bounds.

    declared_options.py  each option's declaration
    learner_options.py   all options, checked and completed; the name of a model, and what else follows from options
    ngrams.py            the option `ngrams`: neighbours in a text as features
    defaults.py          the defaults that depend on other options
    contradictions.py    which options exclude each other
    conditions.py        what a row of these two tables asks of an option
    mergeability.py      which options let models be merged

The configuration and `stream-apple evaluate` are made of the declarations. A worker reads its configuration before its
heavy imports, so nothing here may import numpy or numba.
"""

from stream_apple.learners.apple.options.declared_options import (
    ALPHA,
    BITS,
    CLASSES,
    DECLARED,
    FIRST,
    LEARNING_RATE,
    MAX_FEATURES_PER_EXAMPLE,
    Combine,
    DeclaredOptions,
    Discretise,
    Drift,
    Loss,
    Method,
    OnOff,
    Selection,
)
from stream_apple.learners.apple.options.defaults import default_of
from stream_apple.learners.apple.options.learner_options import MOST_FIRST_FEATURES, Options
from stream_apple.learners.apple.options.mergeability import MERGEABLE, mergeable, why_not_merged, why_not_started_from
from stream_apple.learners.apple.options.ngrams import ALL_NAMESPACES, parse_ngrams
from stream_apple.learners.declaration import Declaration, IntegerBounds, NumberBounds

__all__ = [
    "ALL_NAMESPACES",
    "ALPHA",
    "BITS",
    "CLASSES",
    "DECLARED",
    "FIRST",
    "LEARNING_RATE",
    "MAX_FEATURES_PER_EXAMPLE",
    "MERGEABLE",
    "MOST_FIRST_FEATURES",
    "Combine",
    "Declaration",
    "DeclaredOptions",
    "Discretise",
    "Drift",
    "IntegerBounds",
    "Loss",
    "Method",
    "NumberBounds",
    "OnOff",
    "Options",
    "Selection",
    "default_of",
    "mergeable",
    "parse_ngrams",
    "why_not_merged",
    "why_not_started_from",
]
