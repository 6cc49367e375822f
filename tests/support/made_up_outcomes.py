"""Outcomes that were made up, so that what follows from them can be worked out by hand."""

from pathlib import Path

from study.preparation import SetFacts
from study.report.outcomes import Line, Outcome, Outcomes, label_of

ALPHAS = (0.5, 1.0)
NAMES = ("one", "two", "three", "tie")
# Errors of linear, quadratic, cubic, both alphas, stage_poly; then seconds of the same.
_ERRORS = {
    "one": (0.4, 0.3, 0.2, 0.1, 0.25, 0.3),
    "two": (0.2, 0.3, 0.6, 0.3, 0.4, 0.2),
    "three": (0.5, 0.4, 0.46, 0.42, 0.39, 0.5),
    "tie": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
_SECONDS = {
    "one": (1.0, 2.0, 50.0, 3.0, 6.0, 4.0),
    "two": (2.0, 3.0, 10.0, 4.0, 30.0, 8.0),
    "three": (1.0, 8.0, 90.0, 2.0, 4.0, 2.0),
    "tie": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
}
LINES = (
    Line("linear", "linear"),
    Line("quadratic", "quadratic"),
    Line("cubic", "cubic"),
    *(Line(label_of("apple", alpha), "apple", alpha) for alpha in ALPHAS),
    Line("vw-stage-poly", "vw-stage-poly"),
)
SMALL, LARGE = LINES[3].label, LINES[4].label


def made_up_outcomes(*, timed: bool = True) -> Outcomes:
    """Three seeds, whose errors differ by a hundredth from the mean to each side."""
    sets = [
        SetFacts(name, Path(name), "binary", 100, 200, 10, 3.0 + place, name, None, ())
        for place, name in enumerate(NAMES)
    ]
    cells = {
        (line.label, name): Outcome(
            errors=[_ERRORS[name][place] + delta for delta in ((-0.01, 0.0, 0.01) if name != "tie" else (0, 0, 0))],
            losses=[_ERRORS[name][place] / 2 + 0.01] * 3,
            features=10.0 * (place + 1),
            seconds=_SECONDS[name][place] if timed else None,
            rate=0.5,
            before=[_ERRORS[name][place]] * 3,
        )
        for place, line in enumerate(LINES)
        for name in NAMES
    }
    return Outcomes(sets, LINES, cells)
