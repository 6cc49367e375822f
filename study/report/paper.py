"""The results that the paper prints, from a table of tab-separated values, to be shown beside a study's.

Columns: name, n, s, d, err_<method> and sec_<method> for lin, quad, cubic and apple1 ... apple0.125. The headings of
the paper's Tables 2 and 3 give the exponents in reverse: seconds grow towards "apple (0.125)", though fewer monomials
would become parents, and the counts that the text gives for an exponent of 1 are those of that column. So it is read
as 1.
"""

import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from stream_apple.errors import ConfigurationError
from stream_apple.untrusted import UnreadableFileError, read_file
from study.methods import BASELINES
from study.report.derived import ratio, relative_error
from study.report.outcomes import BEST, label_of

REVERSED = {
    "linear": "lin",
    "quadratic": "quad",
    "cubic": "cubic",
    label_of("apple-plain", 1): "apple0.125",
    label_of("apple-plain", 0.75): "apple0.25",
    label_of("apple-plain", 0.5): "apple0.5",
    label_of("apple-plain", 0.25): "apple0.75",
    label_of("apple-plain", 0.125): "apple1",
}
"""A study's line -> the heading under which the paper has it."""


_BEST = f"apple-plain{BEST}"


class PaperRow(NamedTuple):
    """What the paper has for one set; by a study's lines."""

    rows: int
    errors: Mapping[str, float]
    seconds: Mapping[str, float]

    def relative_error(self, label: str) -> float | None:
        """Return the relative error as the paper defines it."""
        return relative_error(self.errors.get(label), [self.errors[name] for name in BASELINES])

    def relative_time(self, label: str) -> float | None:
        """Return the seconds, divided by those of linear."""
        return ratio(self.seconds.get(label), self.seconds["linear"])


def read_paper(path: Path) -> dict[str, PaperRow]:
    """Read the rows by the names of their sets; ConfigurationError says what is wrong with the file."""
    try:
        rows = list(csv.DictReader(StringIO(read_file(path).decode(), newline=""), delimiter="\t"))
    except UnreadableFileError as error:
        raise ConfigurationError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: expected a readable table, found: {error}") from None
    found = {}
    for number, row in enumerate(rows, 2):
        try:
            errors, seconds = (
                {label: float(row[f"{kind}_{heading}"]) for label, heading in REVERSED.items()}
                for kind in ("err", "sec")
            )
            best = min((label for label in REVERSED if label not in BASELINES), key=errors.__getitem__)
            errors[_BEST], seconds[_BEST] = errors[best], seconds[best]
            found[row["name"]] = PaperRow(int(row["n"]), errors, seconds)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{path}:{number}: expected the columns name, n, err_lin ... sec_apple0.125, found: {error!r}"
            ) from None
    return found
