"""The scale of importance weights."""

import pytest

from stream_apple.records.weights import WeightScale


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0] * 5, ""),
        ([0.01], ""),
        ([10.0], ""),
        ([], ""),
        ([0.001] * 500 + [0.003] * 500 + [1e9], "1,000 weights is 0.002"),
    ],
)
def test_weights_far_from_one_are_told_of(weights: list[float], said: str) -> None:
    """By the mean of the first thousand."""
    scale = WeightScale()
    scale.add(weights[:3])
    scale.add(weights[3:])
    assert said in scale.hint
    assert bool(said) == bool(scale.hint)
