"""What `generate --ask` says of the answers; that it sends and asks is tried in end_to_end/test_closed_loop.py."""

import pytest

from stream_apple.cli.generate import _how_good
from stream_apple.demo.loop.judging import Judge
from stream_apple.demo.loop.site import Shown


@pytest.mark.parametrize(
    ("log_odds", "told"),
    [
        ([], "of the latest 0 decided, 0 had no answer"),
        ([None, None], "of the latest 2 decided, 2 had no answer"),
        (
            [None, 0.0],
            "of the latest 2 decided, 1 had no answer, the others a loss of 0.6931, the best constant 0.0000",
        ),
    ],
)
def test_how_good_the_answers_were(log_odds: list[float | None], told: str) -> None:
    """A loss is told where there is one: a site asks before the group has a model, too."""
    judge = Judge()
    for each in log_odds:
        judge.take(Shown(0, each, clicked=True))
    assert _how_good(judge) == told
