"""The learning curve as a picture. Needs the extra `plot`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.errors import ConfigurationError, needs_extra

if TYPE_CHECKING:
    # The name of the picture is checked before anything is learned, without the imports that learning takes.
    from stream_apple.offline.evaluation import Run


def learning_curve(losses: Sequence[float] | NDArray[np.float64], points: int = 200) -> NDArray[np.float64]:
    """Return the mean loss so far after more and more labelled examples, float64[at most points, 2]: count, mean."""
    known = np.asarray(losses)[~np.isnan(losses)]
    at = np.unique(np.geomspace(1, max(len(known), 1), points).astype(int))
    means = np.cumsum(known)[at - 1] / at if len(known) else np.zeros(0)
    return np.column_stack([at[: len(means)], means])


def picture_file(path: Path) -> Path:
    """Return the file to write a picture to, `.png` without a suffix; ConfigurationError for a suffix of no picture."""
    known = empty_figure(asked_by="--plot: ").canvas.get_supported_filetypes()
    if not path.suffix.removeprefix("."):
        return path.with_name(f"{path.name.rstrip('.')}.png")
    if path.suffix[1:].lower() not in known:
        raise ConfigurationError(
            f"--plot {path}: expected a suffix of {', '.join(f'.{suffix}' for suffix in known)}, found {path.suffix}"
        )
    return path


def empty_figure(size: tuple[float, float] | None = None, asked_by: str = "") -> Any:  # noqa: ANN401  untyped library
    """Return a figure of matplotlib; ConfigurationError if matplotlib is not installed.

    size      in inches; None: matplotlib's default
    asked_by  the beginning of the error's message
    """
    with needs_extra("plot", asked_by):
        from matplotlib.figure import Figure
    return Figure(figsize=size, layout="constrained")


def draw_learning_curve(run: "Run", path: Path) -> None:
    """Draw the progressive loss so far; the suffix decides the format.

    There is a line for the published score, one for the linear predictor alongside, and, with a mixture, one for the
    expanded predictor.
    """
    figure = empty_figure((7, 4), "--plot: ")
    axes = figure.subplots()
    axes.semilogx(*learning_curve(run.scores.losses).T, label="the mixture" if run.mixed else run.result.method)
    if run.mixed:
        axes.semilogx(*learning_curve(run.losses_of("expanded")).T, label="expanded")
    if run.result.method != "linear":
        axes.semilogx(*learning_curve(run.losses_of("linear")).T, label="linear, alongside")
    axes.set(xlabel="examples", ylabel="progressive loss", title="Mean loss of predictions made before learning")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)
