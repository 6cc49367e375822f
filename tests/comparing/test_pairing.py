"""Pairs are those of a join of all that came, in whatever portions; what is held is bounded once sides wait."""

from hypothesis import given
from hypothesis import strategies as st

from stream_apple.comparing.pairing import Pairing, Placed

OFFSETS = st.sets(st.integers(0, 60), max_size=40).map(sorted)


@given(sides=st.lists(OFFSETS, min_size=2, max_size=3), data=st.data())
def test_pairs_are_those_of_a_join(sides: list[list[int]], data: st.DataObject) -> None:
    """Whichever side comes when, and what is without a partner is counted, as far as that is known."""
    pairing, left, found = Pairing[int](len(sides), 5), [list(each) for each in sides], []
    while any(left):
        side = data.draw(st.sampled_from([number for number, each in enumerate(left) if each]))
        count = data.draw(st.integers(1, 7))
        pairing.put(side, 3, [Placed(offset, offset * 10 + side) for offset in left[side][:count]])
        del left[side][:count]
        found += pairing.take(3)
    common = sorted(set(sides[0]).intersection(*sides[1:]))
    assert found == [tuple(offset * 10 + side for side in range(len(sides))) for offset in common]
    for side, offsets in enumerate(sides):
        assert len(common) + pairing.unpaired[side] + pairing.waiting(side, 3) == len(offsets)
    assert pairing.repeated == [0] * len(sides)


@given(ahead=OFFSETS, behind=OFFSETS, most=st.integers(1, 9))
def test_no_side_waits_for_one_that_waits(ahead: list[int], behind: list[int], most: int) -> None:
    """In a partition one side at most has anything held, so one at least may go on; what waits goes on in time."""
    pairing, left, found = Pairing[int](2, most), [list(ahead), list(behind)], 0
    waiting = [False, False]
    for _ in range(500):
        for side in range(2):
            waiting[side] = not pairing.may_go_on(side, 0) if waiting[side] else pairing.must_wait(side, 0)
            if left[side] and not waiting[side]:
                pairing.put(side, 0, [Placed(left[side].pop(0), side)])
            found += len(pairing.take(0))
        assert not all(waiting)
        assert max(pairing.ahead()) <= most + 1
    assert found == len(set(ahead) & set(behind))
    assert not left[0] or not left[1]


def test_an_example_answered_twice_counts_once() -> None:
    """The first answer is the one; what comes out of order is a second one, too."""
    pairing = Pairing[str](2, 10)
    pairing.put(0, 1, [Placed(4, "a"), Placed(4, "again"), Placed(6, "b"), Placed(5, "late")])
    pairing.put(1, 1, [Placed(4, "c"), Placed(5, "d"), Placed(6, "e")])
    assert pairing.take(1) == [("a", "c"), ("b", "e")]
    assert pairing.repeated == [2, 0]
    assert pairing.unpaired == [0, 1]
    assert pairing.take(0) == []


def test_who_waits_and_who_may_go_on() -> None:
    """Beyond the bound a side waits, until half of it is gone; each partition by itself."""
    pairing = Pairing[str](2, 4)
    assert pairing.waiting(0, 7) == 0
    pairing.put(0, 7, [Placed(offset, "left") for offset in range(4)])
    assert not pairing.must_wait(0, 7)
    pairing.put(0, 7, [Placed(4, "left")])
    pairing.put(0, 8, [Placed(0, "left")])
    assert [pairing.must_wait(side, number) for side, number in ((0, 7), (0, 8), (1, 7))] == [True, False, False]
    pairing.put(1, 7, [Placed(offset, "right") for offset in (0, 2)])
    assert pairing.take(7) == [("left", "right")] * 2
    assert pairing.unpaired == [1, 0]
    assert (pairing.waiting(0, 7), pairing.may_go_on(0, 7), list(pairing.ahead())) == (2, True, [3, 0])
    pairing.put(0, 7, [Placed(5, "left")])
    assert not pairing.may_go_on(0, 7)
    assert not pairing.must_wait(0, 7)
