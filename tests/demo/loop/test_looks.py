"""What people see of the loop, and what a run that broke its promises is told."""

import math
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from support.rendering import rendered

from stream_apple.demo.loop.judging import NO_JUDGEMENT, Judgement
from stream_apple.demo.loop.looks import loop_line, loop_picture, loop_summary
from stream_apple.demo.loop.loop_report import Latency, LoopReport, LoopResult, LoopView
from stream_apple.demo.state import CurvePoint

VIEW = LoopView(
    doing="waiting for the last outcomes",
    total=200_000,
    asked=150_000,
    per_second=4_000.0,
    answered=145_000,
    undecided=10_000,
    clicks_to_come=3_456,
    examples=138_000,
    latency=Latency(11.25, 123.4),
    recent=Judgement(0.5432, 0.6543),
    curve=tuple(CurvePoint(3000 * step, 0.7 - 0.003 * step, 0.65) for step in range(1, 47)),
    address="http://127.0.0.1:65535",
)
GOOD = LoopReport(LoopResult(900, 800, 300, 300, 900, 1.0, 5.0, 0, 0.5, 0.65), 900, 0)


@pytest.mark.parametrize("width", [80, 100])
def test_the_picture_fits_a_terminal(width: int) -> None:
    """No more than 24 lines, none wider than the terminal, with the numbers of the moment."""
    lines = rendered(loop_picture(VIEW, width), width)
    assert len(lines) <= 24
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    for part in (
        "150,000 of 200,000", "4,000/s", "145,000 in 11.2 ms, p99 123.4 ms; 5,000 without a model",
        "0.5432 recently, a constant's 0.6543", "10,000 impressions undecided, 3,456 clicks to come", "138,000",
        "waiting for the last outcomes", "http://127.0.0.1:65535/",
    ):  # fmt: skip
        assert part in text


def test_before_the_first_request_it_says_what_is_done() -> None:
    """There is no empty plot."""
    text = "\n".join(rendered(loop_picture(LoopView(doing="compiling", total=100), 80), 80))
    assert "compiling ..." in text
    assert "requests" not in text


def test_before_there_is_a_model_the_plot_is_empty() -> None:
    """Points without a loss are no points, and the range is still one."""
    nothing = tuple(CurvePoint(number, *NO_JUDGEMENT) for number in range(5))
    for curve in ((), nothing, (*nothing, *VIEW.curve)):
        text = "\n".join(rendered(loop_picture(replace(VIEW, curve=curve), 80), 80))
        assert "nan" not in text.lower()


def test_a_line_has_the_same_facts() -> None:
    """One line, both losses."""
    found = loop_line(VIEW)
    assert "\n" not in found
    for part in ("150,000 of 200,000", "p99 123.4 ms", "10,000", "answers 0.5432, constant 0.6543"):
        assert part in found


def test_the_summary_compares_the_losses() -> None:
    """Less than a constant's, in per cent of that."""
    assert "23% less" in loop_summary(GOOD).plain


def test_a_good_run_has_kept_its_promises() -> None:
    """All asked, learned and labelled, and better than a constant."""
    assert GOOD.broken_promises() == []


@pytest.mark.parametrize(
    ("result", "repeated", "words"),
    [
        ({"examples": 899}, 0, "899 learned"),
        ({}, 2, "2 predicted again"),
        ({"labelled": 299}, 0, "found 299"),
        ({"last_third_unanswered": 4}, 0, "found 4 without"),
        ({"last_third_loss": 0.65}, 0, "below the best constant's"),
        ({"last_third_loss": math.nan}, 0, "below the best constant's"),
    ],
)
def test_each_broken_promise_is_found(result: dict[str, Any], repeated: int, words: str) -> None:
    """One sentence, which says what is wrong."""
    (found,) = GOOD._replace(result=GOOD.result._replace(**result), repeated=repeated).broken_promises()
    assert words in found
