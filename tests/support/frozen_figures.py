"""Figures of learning that every later commit has to keep, as a file holds them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

BOUNDS = {"loss": 0.005, "error": 0.005, "features": 0.02}
"""Figure -> by which share of its frozen value it may change."""
_SAME_SET = 1e-5  # by which the identity of a set may differ: that of another set differs by more


class Figures(NamedTuple):
    """What one run showed; `error` is None for a regression."""

    loss: float
    error: float | None
    features: float


class Measured(NamedTuple):
    """Of one set: what tells it from another, and the figures of each run by the run's name."""

    identity: Mapping[str, float]
    runs: Mapping[str, Figures]


def toml_of(found: Mapping[str, Mapping[str, Measured]]) -> Iterator[str]:
    """Yield the lines that hold the sets of each group."""
    for group, measured in found.items():
        for name, (identity, runs) in measured.items():
            yield from ("", f'[{group}."{name}"]', *(f"{key} = {value:.7g}" for key, value in identity.items()))
            for run, figures in runs.items():
                pairs = (f"{key} = {value:.6g}" for key, value in figures._asdict().items() if value is not None)
                yield f'"{run}" = {{ {", ".join(pairs)} }}'


def differences(
    found: Mapping[str, Measured], frozen: Mapping[str, Mapping[str, Any]], improved: Mapping[str, str]
) -> list[str]:
    """Return a line for each figure that is out of its bounds, and for each set or run that is new or gone.

    found     the sets that were measured
    frozen    the sets that should have been
    improved  set and run, as in "adult: logistic" -> why its figures may be lower than the bounds allow
    """
    lines = [f"{name}: frozen, but not measured" for name in frozen if name not in found]
    for name, (identity, runs) in found.items():
        if name not in frozen:
            lines.append(f"{name}: measured, but not frozen")
            continue
        held = {key: value for key, value in frozen[name].items() if isinstance(value, dict)}
        others = {key: value for key, value in frozen[name].items() if key not in held}
        if identity.keys() != others.keys() or any(
            abs(value - others[key]) > _SAME_SET * max(1.0, abs(value)) for key, value in identity.items()
        ):
            lines.append(f"{name}: expected the set with {others}, found one with {dict(identity)}")
            continue
        lines += [f"{name}: {run}: frozen, but not measured" for run in held if run not in runs]
        for run, figures in runs.items():
            if run in held:
                lines += _changes(f"{name}: {run}", figures, held[run], lower=f"{name}: {run}" in improved)
            else:
                lines.append(f"{name}: {run}: measured, but not frozen")
    return lines


def _changes(title: str, found: Figures, frozen: Mapping[str, float], *, lower: bool) -> Iterator[str]:
    for figure, now in found._asdict().items():
        then = frozen.get(figure)
        if now is None or then is None:
            if now is not then:
                yield f"{title}: expected {figure} = {then}, found {now}"
        elif abs(now - then) > BOUNDS[figure] * abs(then) and not (lower and now < then):
            change = f" ({now / then - 1.0:+.2%})" if then else ""
            yield f"{title}: expected {figure} = {then} within {BOUNDS[figure]:.1%}, found {now:.6g}{change}"
