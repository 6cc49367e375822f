"""The site: what it publishes when, and what it tells of it."""

from itertools import islice

from stream_apple.demo.loop.site import Shown, Site
from stream_apple.records.message.example import Example, Features

WAIT_MS = 1000
VISITS = [Example(float(number % 3 == 0), 1.0, None, {f"visit={number}": 1.0}) for number in range(300)]


class Clock:
    """Time that passes when it is told to; milliseconds."""

    def __init__(self) -> None:
        self.now = 5_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now


def test_impressions_have_what_was_asked_and_no_label() -> None:
    """Features, an id of their own, and the time of the answer."""
    asked: list[Features] = []

    def ask(features: Features, _key: str) -> float:
        asked.append(features)
        return 0.25

    site = Site(VISITS, ask, WAIT_MS, 1, Clock())
    shown = list(site.impressions())
    assert asked == [visit.features for visit in VISITS] == [one.features for one in shown]
    assert len({one.id for one in shown}) == len(VISITS)
    assert {(one.label, one.timestamp_ms) for one in shown} == {(None, 5_000)}
    assert (site.asked, site.answered, len(site.latencies)) == (300, 300, 300)


def test_a_click_comes_when_its_time_has_come_and_within_the_wait() -> None:
    """Not before; in the order of their times; each of a visit that was clicked, and all of them."""
    clock = Clock()
    site = Site(VISITS, lambda *_: None, WAIT_MS, 1, clock)
    shown = list(site.impressions())
    assert site.clicks_to_come == site.clicks == 100
    clicks: list[Example] = []
    streams = site.outcomes()
    while site.clicks_to_come:
        clock.now = min(due for due, _ in site._coming)
        clicks += islice(streams, 1)
        assert clicks[-1].timestamp_ms == clock.now
    assert list(streams) == []
    times = [click.timestamp_ms or 0 for click in clicks]
    assert times == sorted(times)
    assert len(set(times)) > 50
    assert 5_000 <= times[0] <= times[-1] < 5_000 + WAIT_MS
    assert {click.id for click in clicks} == {one.id for one in shown[::3]}
    assert {click.label for click in clicks} == {1.0}


def test_what_was_clicked_is_judged_no_earlier_than_what_was_not() -> None:
    """All of a time are decided when the wait is over, in their order, with what was answered."""
    clock, answers = Clock(), iter([None, 0.5, -0.5])
    site = Site(VISITS[:3], lambda *_: next(answers), WAIT_MS, 1, clock)
    assert len(list(site.impressions())) == 3
    clock.now += WAIT_MS - 1
    assert list(site.decided()) == []
    assert site.undecided == 3
    clock.now += 1
    assert list(site.decided()) == [
        Shown(6_000, log_odds, clicked=clicked) for log_odds, clicked in ((None, True), (0.5, False), (-0.5, False))
    ]
    assert (site.undecided, site.asked, site.answered) == (0, 3, 2)


def test_both_streams_end_when_the_site_is_closed() -> None:
    """Whatever is left: nobody waits for the clicks that are to come."""
    site = Site(VISITS, lambda *_: None, WAIT_MS, 1, Clock())
    with site:
        impressions = site.impressions()
        next(impressions)
    assert list(impressions) == []
    assert site.clicks_to_come == 1
    assert list(site.outcomes()) == []
