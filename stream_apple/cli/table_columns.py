"""The option that says what the columns of a table are for: the same for `produce` and `evaluate`."""

from typing import NamedTuple

import click

from stream_apple.files import ROLES, ColumnRoles

_CATEGORY, _IGNORE = "category", "ignore"


class ColumnOption(NamedTuple):
    """The option as it was given: pairs of a role, or what else a column is, and its name."""

    column: tuple[tuple[str, str], ...]

    def roles(self) -> ColumnRoles:
        """What follows; click.UsageError for what contradicts itself."""
        named = {role: name for role, name in self.column if role in ROLES}
        if len(named) < sum(role in ROLES for role, _ in self.column):
            raise click.UsageError("--column: expected each of label, weight and id at most once")
        names = [name for _, name in self.column if name]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise click.UsageError(f"--column: expected each column at most once, found {twice!r} again")
        return ColumnRoles(
            named,
            frozenset(name for role, name in self.column if role == _CATEGORY),
            frozenset(name for role, name in self.column if role == _IGNORE),
        )


def _pair(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        role, equals, name = value.partition("=")
        if not equals or role not in {*ROLES, _CATEGORY, _IGNORE} or not (name or role in ROLES):
            raise click.BadParameter(
                f"expected label=NAME, weight=NAME, id=NAME, category=NAME or ignore=NAME, found {value!r}"
            )
        pairs.append((role, name))
    return tuple(pairs)


column_option = click.option(
    "--column",
    multiple=True,
    callback=_pair,
    metavar="ROLE=NAME",
    help="In CSV and Parquet: the column that is the label, weight or id (none: label=), "
    "or whose values are categories (category=), or that is no feature (ignore=). "
    "[default: label=label, and weight and id if there are such columns]",
)
