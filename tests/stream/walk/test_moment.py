"""Moments as text: what a reply names is what `score --as-of` reads."""

import pytest

from stream_apple.stream.walk.moment import Moment


@pytest.mark.parametrize("moment", [Moment(3, 90_210), Moment(0, 0), Moment(12, 5, "held"), Moment(12, 5, "passed")])
def test_there_and_back(moment: Moment) -> None:
    """Text and facts name the same."""
    assert Moment.parse(str(moment)) == moment
    assert Moment(**moment.facts()) == moment


@pytest.mark.parametrize(
    "text", ["", "3", "3@", "@5", "-1@5", "3@-5", "3@5:", "3@5:here", "3@5 ", "٣@5", "3@" + "9" * 40]
)
def test_other_texts(text: str) -> None:
    """Are refused with what was expected."""
    with pytest.raises(ValueError, match="expected partition@offset"):
        Moment.parse(text)


def test_order() -> None:
    """A model waits at a boundary, then goes on there, then learns the next record."""
    moments = [Moment(0, 4), Moment(0, 5), Moment(0, 5, "held"), Moment(0, 5, "passed"), Moment(0, 6)]
    assert sorted(moments, key=lambda each: each.order) == moments
