"""What the page says of a worker that is behind: until when, how fast it goes, and how old what it answers is."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from status_page.browser import Browser
from status_page.contrast import LOW_CONTRAST
from support.clock import Clock
from support.page_site import Site

from stream_apple.monitoring.observer import WorkerObserver
from stream_apple.stream.partitions.state import RecoveryLeft

NARROW = (390, 844)  # the commonest phone


@pytest.fixture
def site(browser: Browser) -> Iterator[Site]:
    """A made-up worker behind a server, which nothing asks any more when it goes."""
    made = Site()
    with made.server:
        yield made
        browser.open("about:blank")


def test_says_that_it_catches_up_and_until_when(browser: Browser, site: Site) -> None:
    """Ready is not level: a backlog, one without an end, one that nobody works off; and a partition that recovers."""
    site.left = RecoveryLeft(5_000, 12.3)
    site.refresh()
    site.turn()
    says = "return document.querySelector('#state-text').innerText === arguments[0]"
    colour = "return document.querySelector('#state').className"
    browser.screen(*NARROW)
    browser.open(f"http://127.0.0.1:{site.server.port}/")
    browser.wait_until(says, "catching up: partition 1 to recover, about 12 s left")
    assert browser.run(colour) == "state warn"

    site.be_ready()
    site.backlog = 266_000
    site.work(4, 5_000)
    browser.wait_until(says, "catching up, about 49 s left")
    assert browser.run(colour) == "state busy"
    assert site.facts("/readyz")[1]["status"] == "ready"
    assert "246K records behind" in browser.text("#v-lag").replace("\n", " ")
    browser.wait_until(f"return (() => {{ {LOW_CONTRAST} }})().length === 0", seconds=10)
    assert browser.run("return document.documentElement.scrollWidth") <= NARROW[0]

    site.work(60, 1_000, 1_500)
    browser.wait_until(says, "behind: as much comes as it answers, or more")
    site.work(70, 0)
    browser.wait_until(says, "276K records behind, and none is being answered")
    site.backlog = 0
    site.work(1, 0)
    browser.wait_until(says, "live")
    assert browser.run(colour) == "state good"


def test_old_events_are_a_history_and_no_alarm(browser: Browser, site: Site) -> None:
    """The stream's event time is told as a day, not as thousands of days that somebody is behind."""
    site.be_ready()
    day = datetime.fromtimestamp(site.model.clock.watermark_ms / 1000, UTC).date()
    browser.open(f"http://127.0.0.1:{site.server.port}/")
    browser.wait_until("return document.querySelector('#v-lag-more').innerText.length > 0")
    told = browser.text("#v-lag-more")
    assert f"replaying history: the stream\u2019s event time is {day}" in told
    assert " behind" not in told


def test_the_average_stands_beside_the_saw(browser: Browser, site: Site) -> None:
    """Records are committed in gusts: a second line has the mean, and so have the words."""
    site.be_ready()
    now = Clock(0)
    site.watch = WorkerObserver(now_ms=now)
    partition = site.owned[0]
    site.watch.follow(lambda: site.owned, lambda _: 12.0)
    site.status._observer = site.watch
    for second in range(60):
        now.now = 1_700_000_000_000 + 1000 * second
        partition.sent_offset += 0 if second % 2 else 2_000
        site.watch.take_points()
    browser.open(f"http://127.0.0.1:{site.server.port}/")
    browser.wait_until("return document.querySelectorAll('#rate-chart path.curve').length === 2")
    told = browser.text("#rate-more").replace(",", "")
    average = float(told.split("on average ")[1].split(" ")[0])
    assert told.startswith("now 0 ")
    assert told.endswith("at most 2000")
    assert average == pytest.approx(1_000, rel=0.05)
