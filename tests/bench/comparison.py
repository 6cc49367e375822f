"""How often a comparison errs for whoever looks after every example, how wide its interval is, and what a pair costs.

    python tests/bench/comparison.py [--sequences 1000] [--pairs 50000]

Losses are those of two groups that are equally good, so that whoever is told better is told wrongly. The yardstick is
the interval of a fixed time, 1.96 standard errors, looked at as often.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from report import figure, header

from stream_apple.comparing.confidence import FIRST, ConfidenceSequence
from stream_apple.comparing.loss_comparison import LossComparison, PairedLoss

Differences = Callable[[np.random.Generator, int], NDArray[np.float64]]

ALPHA = 0.05
LOOKS = (2_000, 10_000, 50_000)


def logistic(draw: np.random.Generator, size: int, clicks: float) -> NDArray[np.float64]:
    """Differences of the logistic losses of two models that see the truth with noise of the same size."""
    truth = math.log(clicks / (1.0 - clicks)) + draw.normal(size=size)
    label = np.where(draw.random(size) < 1.0 / (1.0 + np.exp(-truth)), 1.0, -1.0)
    first, second = (np.logaddexp(0.0, -label * (truth + draw.normal(scale=0.5, size=size))) for _ in range(2))
    return np.asarray(first - second, np.float64)


def squared(draw: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Differences of squared losses with labels that are far out now and then (Student's t, 5 degrees of freedom)."""
    label = draw.standard_t(5, size)
    first, second = (np.square(label - draw.normal(scale=0.5, size=size)) for _ in range(2))
    return np.asarray(first - second, np.float64)


def events(draw: np.random.Generator, size: int, share: float) -> NDArray[np.float64]:
    """Something that happens so seldom, less its mean: what is hardest, as nothing is on the other side."""
    return (draw.random(size) < share).astype(np.float64) - share


STREAMS: dict[str, Differences] = {
    "logistic, 1 in 2": lambda draw, size: logistic(draw, size, 0.5),
    "logistic, 1 in 100": lambda draw, size: logistic(draw, size, 0.01),
    "logistic, 3 in 1,000": lambda draw, size: logistic(draw, size, 0.003),
    "squared, heavy tails": squared,
    "events, 1 in 100": lambda draw, size: events(draw, size, 0.01),
    "events, 3 in 1,000": lambda draw, size: events(draw, size, 0.003),
}


def main() -> None:
    """Print a line for each stream, then the cost."""
    options = argparse.ArgumentParser()
    options.add_argument("--sequences", type=int, default=1_000)
    options.add_argument("--pairs", type=int, default=50_000)
    asked = options.parse_args()
    print(header("numpy"))
    looks = [look for look in LOOKS if look <= asked.pairs]
    print(
        f"{asked.sequences:,} sequences of {asked.pairs:,} pairs, looked at after each from {FIRST:,} on; alpha {ALPHA}"
    )
    print(f"{'':24}{'errs':>8}{'fixed time errs':>18}" + "".join(f"{f'width at {look:,}':>18}" for look in looks))
    for name, differences in STREAMS.items():
        wrong, fixed, widths = peeked(differences, asked.sequences, asked.pairs, looks)
        figure(f"errs, {name}", [wrong], "of sequences", asked.sequences)
        figure(f"errs with the interval of a fixed time, {name}", [fixed], "of sequences", asked.sequences)
        told = [figure(f"width at {look:,}, {name}", widths[look], "of a fixed time's") for look in looks]
        print(f"{name:24}{wrong:8.3f}{fixed:18.3f}" + "".join(f"{width:18.2f}" for width in told))
    draw = np.random.default_rng(1).random((200_000, 2)).tolist()
    pairs = [PairedLoss(x, y, 1.0, at // 20_000, at) for at, (x, y) in enumerate(draw)]
    rates = []
    for _ in range(5):
        comparison, begun = LossComparison(ALPHA), time.perf_counter()
        for start in range(0, len(pairs), 2_000):
            comparison.add(pairs[start : start + 2_000])
        rates.append(len(pairs) / (time.perf_counter() - begun))
    print(f"{figure('pairs compared', rates, 'pairs/s'):,.0f} pairs/s are compared")


def peeked(
    differences: Differences, sequences: int, size: int, looks: list[int]
) -> tuple[float, float, dict[int, list[float]]]:
    """Return the shares of sequences that are wrong at any look, ours and of a fixed time, and our width beside its."""
    draw, wrong, fixed, steps = np.random.default_rng(0), 0, 0, np.arange(1, size + 1)
    widths: dict[int, list[float]] = {look: [] for look in looks}
    for _ in range(sequences):
        values = differences(draw, size)
        means, radii = ConfidenceSequence(ALPHA).add(values)
        errors = 1.96 * np.sqrt(np.maximum(np.cumsum(values * values) / steps - means * means, 1e-300) / steps)
        wrong += bool((np.abs(means) > radii).any())
        fixed += bool((np.abs(means) > errors)[FIRST:].any())
        for look, found in widths.items():
            found.append(float(radii[look - 1] / errors[look - 1]))
    return wrong / sequences, fixed / sequences, widths


if __name__ == "__main__":
    main()
