"""The loss of answers, beside that of a constant."""

import math

import pytest
from sklearn.metrics import log_loss

from stream_apple.demo.loop.judging import NO_JUDGEMENT, Judge
from stream_apple.demo.loop.site import Shown

ANSWERS = [(1.5, True), (-0.3, False), (0.2, False), (2.0, True), (-4.0, True)]


def judge_of(answers: list[tuple[float | None, bool]]) -> Judge:
    """A judge who has taken these in."""
    judge = Judge()
    for log_odds, clicked in answers:
        judge.take(Shown(0, log_odds, clicked))
    return judge


def test_is_the_logarithmic_loss() -> None:
    """As another library computes it, for the answers and for the share of clicks; from any number on."""
    judge = judge_of([*ANSWERS])
    for start in (0, 2):
        clicked = [click for _, click in ANSWERS[start:]]
        chances = [1 / (1 + math.exp(-log_odds)) for log_odds, _ in ANSWERS[start:]]
        share = sum(clicked) / len(clicked)
        found = judge.judgement(start)
        assert found.answers == pytest.approx(log_loss(clicked, chances))
        assert found.constant == pytest.approx(log_loss(clicked, [share] * len(clicked)))


def test_what_had_no_answer_counts_for_neither() -> None:
    """The two losses are of the very same questions."""
    mixed: list[tuple[float | None, bool]] = [(None, True), *ANSWERS, (None, False)]
    assert judge_of(mixed).judgement(0) == judge_of([*ANSWERS]).judgement(0)
    assert judge_of(mixed).unanswered(0) == 2
    assert judge_of(mixed).unanswered(1) == 1


def test_without_answers_there_is_no_loss() -> None:
    """NaN, which no comparison calls better."""
    assert judge_of([]).judgement(0) == NO_JUDGEMENT or math.isnan(judge_of([]).judgement(0).answers)
    assert math.isnan(judge_of([(None, True)]).judgement(0).answers)


def test_where_everybody_clicks_a_constant_is_never_wrong() -> None:
    """Its loss is 0, and not NaN."""
    assert judge_of([(3.0, True), (2.0, True)]).judgement(0).constant == 0
