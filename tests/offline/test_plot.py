"""The learning curve."""

from pathlib import Path

import numpy as np
import pytest

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.plot import draw_learning_curve, learning_curve
from stream_apple.offline.schedule import Schedule


def test_learning_curve_is_the_running_mean() -> None:
    """Unlabelled examples don't count; the last point is the mean."""
    curve = learning_curve([1.0, float("nan"), 3.0], points=5)
    assert curve[-1].tolist() == [2.0, 2.0]
    assert curve[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(bits=10), ["the mixture", "expanded", "linear, alongside"]),
        (Options(bits=10, mixture=False), ["apple", "linear, alongside"]),
        (Options(bits=10, method="linear"), ["linear"]),
    ],
    ids=["mixture", "plain", "linear"],
)
def test_a_line_for_each_predictor(
    options: Options, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published, the expanded predictor if that is something else, and linear; each with its own losses."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    drawn = []
    monkeypatch.setattr(figure, "savefig", lambda self, path: drawn.append((self, path)))
    n = 1200  # so that there are products, and apple differs from linear
    labels = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    keys = np.column_stack([1 + np.arange(n, dtype=np.uint64) % np.uint64(3), np.full(n, 9, np.uint64)]).ravel()
    batch = Batch(np.arange(0, 2 * n + 1, 2), keys, np.ones(2 * n, np.float32), labels, np.ones(n))
    draw_learning_curve(evaluate(batch, options, Schedule()), tmp_path / "curve.png")
    ((found, path),) = drawn
    lines = found.axes[0].get_lines()
    assert [line.get_label() for line in lines] == expected
    assert len({tuple(line.get_ydata()) for line in lines}) == len(expected)
    assert path == tmp_path / "curve.png"
