"""The paper's figures 1 to 7 of this study. Needs matplotlib."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stream_apple.offline.plot import empty_figure
from study.preparation import SetFacts
from study.report.claims import SLOW
from study.report.derived import quartiles, ratio
from study.report.line_styles import lines_to_draw, shades, style_of
from study.report.outcomes import Line, Outcomes

_DENSEST = 6  # the paper's Figure 4 has the six sets with the most non-zeros per example
_SHOWN_ERROR = 2.0  # relative errors beyond are drawn at the edge, with their value
Value = Callable[[Outcomes, Line, str], float | None]


def draw_figures(outcomes: Outcomes, folder: Path) -> list[str]:
    """Draw each figure that there are numbers for as `figure-<n>.png`; returns why the others are missing.

    ConfigurationError if matplotlib is not installed.
    """
    missing = []
    slow = [
        facts.name
        for facts in outcomes.sets
        if (ratio(*(outcomes.get(name, facts.name).seconds for name in ("quadratic", "linear"))) or 0.0) >= SLOW
    ]
    names = [facts.name for facts in outcomes.sets]
    densest = sorted(outcomes.sets, key=lambda facts: -facts.nonzeros)[:_DENSEST]
    drawings: dict[int, Callable[[Any], str | None]] = {
        1: lambda figure: _medians(figure, outcomes, names),
        2: lambda figure: _distributions(figure, outcomes, names, "all sets"),
        3: lambda figure: _distributions(
            figure, outcomes, slow, f"sets on which quadratic takes at least {SLOW:g} times as long as linear"
        ),
        4: lambda figure: _bars(figure, outcomes, densest, (_ERROR, _TIME)),
        5: lambda figure: _bars(figure, outcomes, outcomes.sets, (_ERROR,)),
        6: lambda figure: _bars(figure, outcomes, outcomes.sets, (_TIME,)),
        7: lambda figure: _bars(figure, outcomes, outcomes.sets, (_FEATURES,)),
    }
    for number, draw in drawings.items():
        figure, path = empty_figure(), folder / f"figure-{number}.png"
        path.unlink(missing_ok=True)
        if (reason := draw(figure)) is not None:
            missing.append(f"Figure {number} is missing: {reason}.")
        else:
            figure.savefig(path, dpi=150)
    return missing


_ERROR: tuple[str, Value] = ("relative error", Outcomes.relative_error)
_TIME: tuple[str, Value] = ("relative time", Outcomes.relative_time)
_FEATURES: tuple[str, Value] = (
    "features per example",
    lambda outcomes, line, name: outcomes.get(line.label, name).features,
)


def _known(outcomes: Outcomes, line: Line, names: Sequence[str], value: Value) -> list[float]:
    return [found for name in names if (found := value(outcomes, line, name)) is not None]


def _medians(figure: Any, outcomes: Outcomes, names: Sequence[str]) -> str | None:  # noqa: ANN401  untyped library
    """Draw the median of relative error over median of relative time, with bars to the quartiles."""
    figure.set_size_inches(7.5, 5)
    axes = figure.subplots()
    drawn = 0
    for line in lines_to_draw(outcomes.lines):
        errors, times = (_known(outcomes, line, names, value) for _, value in (_ERROR, _TIME))
        if not errors or not times:
            continue
        (x_low, x, x_high), (y_low, y, y_high) = quartiles(times), quartiles(errors)
        style = style_of(outcomes.lines, line) | {"linestyle": ""}
        bars = {"xerr": [[x - x_low], [x_high - x]], "yerr": [[y - y_low], [y_high - y]]}
        axes.errorbar(x, y, **bars, color=style["color"], elinewidth=1, capsize=3, linestyle="", alpha=0.6)
        axes.plot([x], [y], markersize=9, markeredgecolor="white", markeredgewidth=0.5, label=line.label, **style)
        drawn += 1
    if not drawn:
        return "it needs seconds, and relative errors"
    axes.set(xscale="log", xlabel="relative time (time / time of linear)", ylabel="relative error")
    axes.axhline(0, color="#999999", linewidth=0.8, zorder=0)
    axes.set_title(f"Medians over {len(names)} sets, with bars to the quartiles: lower left is better", fontsize=10)
    _plain_logarithms(axes.xaxis)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8)
    return None


def _distributions(figure: Any, outcomes: Outcomes, names: Sequence[str], of: str) -> str | None:  # noqa: ANN401  untyped library
    """Draw how many sets have at most this relative error, and at most this relative time."""
    panels = [
        (title, value)
        for title, value in (_ERROR, _TIME)
        if any(_known(outcomes, line, names, value) for line in outcomes.lines)
    ]
    if not panels:
        return f"there are no numbers for it ({of})"
    figure.set_size_inches(5.2 * len(panels) + 1.8, 4.5)
    for axes, (title, value) in zip(np.ravel(figure.subplots(1, len(panels))), panels, strict=True):
        drawn = [
            (line, sorted(found))
            for line in lines_to_draw(outcomes.lines)
            if (found := _known(outcomes, line, names, value))
        ]
        if title == "relative time":
            drawn = [(line, found) for line, found in drawn if line.label != line.program]
        least, most = min(found[0] for _, found in drawn), max(found[-1] for _, found in drawn)
        if title == "relative time":
            axes.set_xscale("log")
            _plain_logarithms(axes.xaxis)
            left, right = least / 1.1, most * 1.1
        else:
            left, right = max(least - 0.1, -_SHOWN_ERROR), min(most + 0.1, _SHOWN_ERROR)
            axes.axvline(0, color="#999999", linewidth=0.8, zorder=0)
        for line, found in drawn:
            _distribution(axes, outcomes.lines, line, [min(left, found[0]), *found, max(right, found[-1])])
        sets = max(len(found) for _, found in drawn)
        axes.set(xlabel=title, ylabel="number of sets with at most this", xlim=(left, right), ylim=(0, sets + 0.5))
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25)
    figure.suptitle(f"Cumulative distributions over {len(names)} sets: {of}", fontsize=10)
    handles = {}
    for axes in figure.axes:
        found_handles, labels = axes.get_legend_handles_labels()
        handles.update(dict(zip(labels, found_handles, strict=True)))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return None


def _distribution(axes: Any, lines: Sequence[Line], line: Line, places: Sequence[float]) -> None:  # noqa: ANN401  untyped library
    """Draw a staircase from the left edge to the right edge; the alphas below the largest are thin."""
    grid = [each for each in lines if each.method == line.method and each.alpha is not None]
    counts = [*range(len(places) - 1), len(places) - 2]
    style = style_of(lines, line) | {"marker": ""}
    width = 0.8 if line.alpha is not None and line is not grid[-1] else 1.8
    axes.step(places, counts, where="post", linewidth=width, label=line.label, **style)


def _bars(
    figure: Any,  # noqa: ANN401  untyped library
    outcomes: Outcomes,
    sets: Sequence[SetFacts],
    panels: Sequence[tuple[str, Value]],
) -> str | None:
    """Draw a group of bars for each set, a bar for each alpha of the first method that has a grid."""
    grids = [line for line in outcomes.lines if line.alpha is not None]
    grid = [line for line in grids if line.method == grids[0].method]
    names = [facts.name for facts in sets]
    shown = [(title, value) for title, value in panels if any(_known(outcomes, line, names, value) for line in grid)]
    if not shown:
        return "it needs a method with a grid, and " + " or ".join(title for title, _ in panels)
    figure.set_size_inches(max(7.0, 1.0 + 0.85 * len(names)), 3.6 * len(shown) + 0.4)
    for axes, (title, value) in zip(np.ravel(figure.subplots(len(shown), 1)), shown, strict=True):
        _panel(axes, outcomes, names, grid, (title, value))
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(grid), fontsize=8, frameon=False)
    return None


def _panel(
    axes: Any,  # noqa: ANN401  untyped library
    outcomes: Outcomes,
    names: Sequence[str],
    grid: Sequence[Line],
    panel: tuple[str, Value],
) -> None:
    title, value = panel
    colours = shades(len(grid))
    # Bars of logarithms begin at 1: the time of linear, or the constant alone.
    bottom = 0 if title == "relative error" else 1
    width = 0.8 / len(grid)
    for place, line in enumerate(grid):
        for at, name in enumerate(names):
            found = value(outcomes, line, name)
            x = at + (place - (len(grid) - 1) / 2) * width
            if found is None:
                axes.plot([x], [bottom], marker="x", color="#888888", markersize=4)
                continue
            drawn = max(min(found, _SHOWN_ERROR), -_SHOWN_ERROR) if title == "relative error" else found
            axes.bar(x, drawn - bottom, width, bottom=bottom, color=colours[place], edgecolor="black", linewidth=0.4)
            if drawn != found:
                axes.annotate(
                    f"{found:.1f}",
                    (x, drawn),
                    ha="center",
                    xytext=(0, 2 if drawn > 0 else -2),
                    textcoords="offset points",
                    va="bottom" if drawn > 0 else "top",
                    fontsize=6,
                    rotation=90,
                )
        axes.bar(0, 0, 0, bottom=bottom, color=colours[place], edgecolor="black", linewidth=0.4, label=line.label)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_ylabel(title)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    if title == "relative error":
        axes.axhline(0, color="black", linewidth=0.8)
        axes.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
        low, high = axes.get_ylim()
        # Room for the values of bars that are cut.
        axes.set_ylim(low - 0.3 * (low <= -_SHOWN_ERROR), high + 0.3 * (high >= _SHOWN_ERROR))
        said = f"0: the best of linear, quadratic and cubic; 1: the worst; bars are cut at {_SHOWN_ERROR:g}"
        axes.set_title(f"{said}; a cross: not defined", fontsize=8, loc="left")
    else:
        axes.set_yscale("log")
        axes.axhline(1, color="black", linewidth=0.8)
        _plain_logarithms(axes.yaxis)


def _plain_logarithms(axis: Any) -> None:  # noqa: ANN401  untyped library
    """Label the axis with 1, 2, 5, 10 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
