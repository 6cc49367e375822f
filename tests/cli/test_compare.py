"""What `compare` says: a verdict or that there is none yet, and what is not in the pairs."""

import math
from typing import Any

import pytest
from click.testing import CliRunner

from stream_apple.cli import main
from stream_apple.cli.compare import _counts, _line, _remarks, _table, _verdict
from stream_apple.cli.output import say, table_console
from stream_apple.comparing.group_comparison import ComparisonReport
from stream_apple.comparing.loss_comparison import LossComparison, LossStanding, PairedLoss

STANDING = LossStanding(9_000, 0.5, 0.48, 0.02, 0.005, "challenger", 1_783_864_800_000)
NOBODY: dict[str, int] = {"champion": 0, "challenger": 0}


def told(comparison: LossComparison, **fields: Any) -> ComparisonReport:
    """All that is told of a comparison."""
    return ComparisonReport(comparison, NOBODY, NOBODY, NOBODY, 0, 0, NOBODY, complete=True)._replace(**fields)


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (STANDING, "challenger is better by 4.00% \u00b1 1.00% of the champion's loss, since 2026-07-12 14:00 UTC"),
        (STANDING._replace(difference=-0.02, better="champion"), "champion is better by 4.00% \u00b1 1.00%"),
        (
            STANDING._replace(better=None, radius=0.1),
            "not yet: the challenger's loss is smaller by 4.00% \u00b1 20.00%",
        ),
        (
            STANDING._replace(difference=-0.02, better=None, radius=0.1),
            "not yet: the challenger's loss is larger by 4.00% \u00b1 20.00%",
        ),
        (STANDING._replace(better=None, radius=math.inf), "not yet"),
        (STANDING._replace(since_ms=1 << 62), f"since {1 << 62}"),
    ],
)
def test_the_verdict(standing: LossStanding, text: str) -> None:
    """In one line."""
    assert text in _verdict(standing)


def test_what_is_not_in_the_pairs_is_told() -> None:
    """Each kind in a line, and nothing where there is nothing to tell."""
    comparison = LossComparison(0.05)
    assert list(_remarks(told(comparison))) == []
    comparison.add([PairedLoss(1.0, math.inf, 1.0, 0, 0)])
    full = told(
        comparison,
        unpaired={"champion": 3, "challenger": 0},
        waiting={"champion": 0, "challenger": 4},
        repeated={"champion": 0, "challenger": 5},
        unlabelled=6,
        disputed=8,
        unreadable={"champion": 7, "challenger": 0},
    )
    lines = list(_remarks(full))
    assert [line.split()[0] for line in lines] == ["1", "3", "4", "6", "8", "5", "7"]


def test_a_table_without_pairs_and_with_some(capsys: pytest.CaptureFixture[str]) -> None:
    """Names are no markup, and a number that is not known is a dash."""
    comparison = LossComparison(0.05)
    table_console().print(_table(told(comparison), ("[red]a[/red]", "b\x1b[2J")))
    comparison.add([PairedLoss(0.5, 0.4, 1.0, 3, at) for at in range(3_000)])
    table_console().print(_table(told(comparison), ("a", "b")))
    say(_line(told(comparison, complete=False)))
    out = capsys.readouterr().out
    assert "champion [red]a[/red], challenger b" in out
    assert "\x1b[2J" not in out
    assert "+20.00%" in out
    assert "3,000 pairs so far: challenger is better by 20.00%" in out
    assert _counts(told(comparison)) == "3,000 pairs"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--serve", "0"), "--serve is for --follow"),
        (("--since", "yesterday"), "expected a time such as 2026-11-24T14:00, found 'yesterday'"),
        (("--confidence", "1"), "1.0 is not in the range 0.5<=x<1.0"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], why: str) -> None:
    """Before anything is read."""
    found = CliRunner().invoke(main, ["compare", "--champion", "a.toml", "--challenger", "b.toml", *options])
    assert found.exit_code == 2
    assert why in found.output
