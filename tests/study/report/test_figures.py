"""The pictures: each is drawn when there are numbers for it, and shows something."""

from pathlib import Path

import numpy as np
import pytest
from support.made_up_outcomes import LINES, made_up_outcomes

from stream_apple.errors import ConfigurationError
from study.report.figures import draw_figures
from study.report.line_styles import lines_to_draw, style_of
from study.report.outcomes import Line

matplotlib = pytest.importorskip("matplotlib")


def coloured_share(path: Path) -> float:
    """Of pixels that are neither white nor grey."""
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    return float((np.ptp(pixels, axis=2) > 0.1).mean())


def test_all_are_drawn(tmp_path: Path) -> None:
    """Seven, none of them empty."""
    assert draw_figures(made_up_outcomes(), tmp_path) == []
    paths = sorted(tmp_path.glob("*.png"))
    assert [path.name for path in paths] == [f"figure-{number}.png" for number in range(1, 8)]
    assert min(map(coloured_share, paths)) > 0.002


def test_without_seconds_some_are_missing(tmp_path: Path) -> None:
    """And it is said which, and why; a picture of an earlier study does not stay."""
    (tmp_path / "figure-6.png").write_bytes(b"old")
    missing = draw_figures(made_up_outcomes(timed=False), tmp_path)
    assert [text[:8] for text in missing] == ["Figure 1", "Figure 3", "Figure 6"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"figure-{number}.png" for number in (2, 4, 5, 7)]


def test_lines_look_different() -> None:
    """No two have colour, marker and dashes alike, with a second grid too."""
    lines = [
        *LINES,
        Line("apple-best", "apple-best"), Line("apple-chosen", "apple-chosen"),
        Line("ssm 1", "ssm", 0.5), Line("ssm 2", "ssm", 1.0), Line("ssm-best", "ssm-best"), Line("other", "other"),
    ]  # fmt: skip
    looks = [str(style_of(lines, line)) for line in lines]
    assert len(set(looks)) == len(lines)


def test_the_same_baselines_are_not_drawn_twice() -> None:
    """Vowpal Wabbit's stand in only where ours are not."""
    theirs = Line("vw-linear", "vw-linear")
    assert theirs not in lines_to_draw([*LINES, theirs])
    assert theirs in lines_to_draw([theirs, LINES[5]])


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of an extra."""
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ConfigurationError, match=r"stream-apple\[plot\]"):
        draw_figures(made_up_outcomes(), tmp_path)
