"""What a user writes has types: `mypy --strict` checks this file with all others."""

from pathlib import Path
from typing import assert_type

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple import AppleClassifier, LearnedModel, load_model
from stream_apple.errors import ConfigurationError
from stream_apple.river import AppleRegressor


def as_a_user_does(rows: NDArray[np.float64], labels: NDArray[np.float64]) -> tuple[float, float]:
    """An estimator of each kind."""
    model = AppleClassifier(bits=8).fit(rows, labels)
    assert_type(model.predict_proba(rows), NDArray[np.float64])
    assert_type(model.monomials(3)[0].name, str)
    assert_type(model.explain(rows[:1])[0].amount, float)
    regressor = AppleRegressor(bits=8)
    regressor.learn_one({"x": 1.0}, 2.0)
    return model.progressive_loss_, assert_type(regressor.predict_one({"x": 1.0}), float)


def open_as_a_user_does(path: Path) -> LearnedModel:
    """A model of a file."""
    model = load_model(path)
    assert_type(model.as_of.offset, int)
    return model


def test_it_does_what_the_types_say(tmp_path: Path) -> None:
    """It runs, too."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    loss, prediction = as_a_user_does(rows, (rows[:, 0] > 0).astype(np.float64))
    assert loss > 0.0
    assert 0.0 <= prediction <= 2.0
    with pytest.raises(ConfigurationError):
        open_as_a_user_does(tmp_path / "none.model")
