"""The verdict comes when it is sure, with the time from which it is, however pairs come; and it is withdrawn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.comparing.confidence import FIRST
from stream_apple.comparing.loss_comparison import MOST_EPOCHS, LossComparison, PairedLoss


def pairs(size: int, gain: float, seed: int = 0, first: int = 0) -> list[PairedLoss]:
    """Losses about 1, of which the challenger's are smaller by `gain`; epochs of 4,000, a second each."""
    draw = np.random.default_rng(seed)
    base, noise = draw.exponential(size=size), draw.normal(scale=0.5, size=size)
    return [
        PairedLoss(float(loss), float(loss - gain + apart), 1.0, (first + at) // 4_000, 1_000 * (first + at))
        for at, (loss, apart) in enumerate(zip(base, noise, strict=True))
    ]


def compared(given_pairs: list[PairedLoss], portion: int = 1_000) -> LossComparison:
    """All of them, in portions."""
    comparison = LossComparison(0.05)
    for start in range(0, len(given_pairs), portion):
        comparison.add(given_pairs[start : start + portion])
    return comparison


@pytest.mark.parametrize(("gain", "better"), [(0.1, "challenger"), (-0.1, "champion"), (0.0, None)])
def test_the_better_one_is_told(gain: float, better: str | None) -> None:
    """With means by weight, and the gain as a share of the champion's loss; where there is none, nobody is better."""
    given_pairs = pairs(20_000, gain)
    found = compared(given_pairs).whole()
    assert found.pairs == 20_000
    assert found.better == better
    assert math.isclose(found.champion_loss, np.mean([each.champion for each in given_pairs]))
    assert math.isclose(found.challenger_loss, np.mean([each.challenger for each in given_pairs]))
    assert abs(found.difference - gain) <= found.radius
    assert math.isclose(found.gain * found.champion_loss, found.difference)
    assert (found.since_ms is None) == (better is None)


def test_since_when_does_not_depend_on_portions() -> None:
    """It is the first pair from which on it has been sure without a break."""
    given_pairs = pairs(9_000, 0.05)
    expected = compared(given_pairs, 9_000).whole()
    assert expected.since_ms is not None

    @settings(max_examples=8)
    @given(portion=st.integers(1, 7_000))
    def agree(portion: int) -> None:
        assert compared(given_pairs, portion).whole().since_ms == expected.since_ms

    agree()
    until = expected.since_ms // 1_000
    assert compared(given_pairs[:until]).whole().better is None
    assert compared(given_pairs[: until + 1]).whole().better == "challenger"


def test_a_verdict_is_withdrawn() -> None:
    """When the other one catches up, nobody is better; then he is."""
    given_pairs = [*pairs(8_000, 0.3), *pairs(60_000, -0.3, seed=1, first=8_000)]
    comparison, seen = LossComparison(0.05), list[str | None]()
    for start in range(0, len(given_pairs), 500):
        comparison.add(given_pairs[start : start + 500])
        better = comparison.whole().better
        if not seen or seen[-1] != better:
            seen.append(better)
    assert seen == [None, "challenger", None, "champion"]


def test_epochs_are_told_apart() -> None:
    """Each by its own pairs; one that is too short tells nothing; of very many, the newest are kept."""
    comparison = compared([*pairs(8_000, 0.3), *pairs(4_000 + FIRST - 1, -0.3, seed=1, first=8_000)])
    found = comparison.epochs()
    assert {epoch: (each.better, each.pairs) for epoch, each in found.items()} == {
        0: ("challenger", 4_000),
        1: ("challenger", 4_000),
        2: ("champion", 4_000),
        3: (None, FIRST - 1),
    }
    assert math.isinf(found[3].radius)
    comparison.add([PairedLoss(1.0, 1.0, 1.0, epoch, 0) for epoch in range(2 * MOST_EPOCHS)])
    assert list(comparison.epochs()) == list(range(MOST_EPOCHS, 2 * MOST_EPOCHS))


def test_weights_count() -> None:
    """An example of weight 3 counts as three, and one of weight 0 not at all."""
    draw = np.random.default_rng(2)
    weighted = [each._replace(weight=float(draw.choice([0.0, 1.0, 3.0]))) for each in pairs(9_000, 0.1)]
    found = compared(weighted).whole()
    weights = [each.weight for each in weighted]
    assert found.pairs == np.count_nonzero(weights)
    assert math.isclose(found.champion_loss, np.average([each.champion for each in weighted], weights=weights))
    assert math.isclose(
        found.difference, np.average([each.champion - each.challenger for each in weighted], weights=weights)
    )


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_after_an_unbounded_loss_nothing_is_sure(loss: float) -> None:
    """It is not left out in silence: who made it would look the better for it."""
    comparison = compared(pairs(20_000, 0.3))
    assert comparison.whole().better == "challenger"
    comparison.add([PairedLoss(1.0, loss, 1.0, 0, 0)])
    assert comparison.unbounded == 1
    assert comparison.whole().better is None
    assert math.isinf(comparison.whole().radius)


def test_before_the_first_pair() -> None:
    """There is nothing to tell."""
    comparison = LossComparison(0.05)
    comparison.add([])
    found = comparison.whole()
    assert (found.pairs, found.better, found.since_ms) == (0, None, None)
    assert math.isnan(found.champion_loss)
    assert comparison.epochs() == {}
