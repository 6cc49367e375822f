"""scikit-learn's own suite for estimators passes, with nothing skipped and nothing expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from stream_apple import AppleClassifier, AppleRegressor

# Some checks make data at which other estimators warn, and see that ours do it too.
pytestmark = pytest.mark.filterwarnings("ignore")


@parametrize_with_checks([AppleClassifier(), AppleRegressor()])  # type: ignore[untyped-decorator]
def test_the_estimator_is_one_of_scikit_learn(estimator: Any, check: Any) -> None:
    """Each check of the suite, by its name."""
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([AppleRegressor(method="linear")])  # type: ignore[untyped-decorator]
def test_the_linear_estimator_is_one_too(estimator: Any, check: Any) -> None:
    """By the same checks."""
    check(estimator)
