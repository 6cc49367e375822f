"""Tables of markdown, and how numbers stand in them."""

from collections.abc import Iterable, Sequence

NOTHING = "–"  # noqa: RUF001  a dash


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the first column is text, the others are numbers."""
    return [
        f"| {' | '.join(header)} |",
        f"|---|{'---:|' * (len(header) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def spelled(value: float | None, digits: int = 4) -> str:
    """Spell a number with so many significant digits, without an exponent where it can be; a dash for None."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:#.{digits}g}".rstrip(".")


def numbers(values: Sequence[float | None]) -> list[str]:
    """Return each value as it stands in a table."""
    return [spelled(value) for value in values]


def hundredths(values: Sequence[float | None]) -> list[str]:
    """Spell each value with two decimals."""
    return [NOTHING if value is None else f"{round(value, 2) + 0.0:.2f}" for value in values]


def emphasised(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Spell each value, the least ones in bold."""
    known = [value for value in values if value is not None]
    least = min(known, default=None)
    return [
        f"**{spelled(value, digits)}**" if value is not None and value == least else spelled(value, digits)
        for value in values
    ]
