"""What the view of a model says of its tuples of attributes."""

import numpy as np
from learners.apple.categories import batch_of_cases, cases_of_codes, key_of_name

from stream_apple.core.codec.feature_names import Names
from stream_apple.learners.apple.factorization import Factors
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.monitoring.tuple_views import TuplesView, view_tuples

SIZE = 1500
NAMES = Names()
NAMES.add((key_of_name(name), name) for name in (f"a{at}={code}" for at in range(4) for code in range(3)))


def viewed(options: Options, names: Names = NAMES) -> TuplesView | None:
    """Of a model that has selected, if it does, after an epoch, from examples where a0 and a1 decide."""
    codes = np.random.default_rng(3).integers(0, 3, (SIZE, 4))
    batch = batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1]))
    learner, scores = Learner(options), Scores.empty(SIZE)
    learner.learn(batch, 0, SIZE, scores)
    learner.end_epoch()
    return view_tuples(learner, Factors(learner.table), names, 2)


def test_selected_tuples_have_their_attributes_names() -> None:
    """How many of how many, and the most salient first; what has not been seen by name is a question mark."""
    options = Options(method="tuples", loss="logistic", selection_share=0.5, bits=12)
    found = viewed(options)
    assert found is not None
    assert (found.order, found.selected, found.seen, found.level) == (2, 3, 6, 3)
    assert len(found.top) == 2
    assert found.top[0].attributes == ("a0", "a1")
    assert found.top[0].features == 9
    assert found.top[0].salience > found.top[1].salience > 0
    nameless = viewed(options, Names())
    assert nameless is not None
    assert nameless.top[0].attributes == ("?", "?")
    assert nameless.top[0].salience == found.top[0].salience


def test_what_is_not_counted_is_not_told() -> None:
    """With a share of 1 nobody counts what is of which tuple; other methods have none."""
    assert viewed(Options(method="tuples", loss="logistic", bits=12)) == TuplesView(2, 0, 0, 2, ())
    assert viewed(Options(method="quadratic", loss="logistic", bits=12)) is None
