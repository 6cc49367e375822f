"""River's own suite for estimators passes, with nothing skipped or expected to fail.

By default each of its checks has one of its data sets, and in the long run all of them.
"""

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from river import checks

from stream_apple.river import AppleClassifier, AppleRegressor

pytestmark = pytest.mark.filterwarnings("ignore")


def _cases() -> Iterator[Any]:
    for kind in (AppleClassifier, AppleRegressor):
        assert kind()._unit_test_skips() == set()
        for parameters in kind._unit_test_params():
            seen: set[str] = set()
            for number, check in enumerate(checks.yield_checks(kind(**parameters))):
                name = f"{kind.__name__}-{parameters or ''}-{number}-{check.__name__}"
                marks = [pytest.mark.long] if check.__name__ in seen else []
                yield pytest.param(functools.partial(kind, **parameters), check, id=name, marks=marks)
                seen.add(check.__name__)


@pytest.mark.parametrize(("make", "check"), list(_cases()))
def test_the_model_is_one_of_river(make: Any, check: Any) -> None:
    """Each check of the suite, by its name."""
    check(make())
