"""The status page of a real worker in a real browser: live, named, escaped, readable, and honest in an outage."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from status_page.browser import Browser
from status_page.classes_of_numbers import model_of_numbers
from status_page.click_feed import HOSTILE, click_feed
from status_page.contrast import LOW_CONTRAST
from support.clock import Clock
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.merges import summary_of
from support.page_site import HOSTILE as HOSTILE_MESSAGE
from support.page_site import Site
from support.planted_pair import PAIR
from support.ports import free_ports
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.learners.progress.progressive_loss import LINEAR_LOSS, LOSS, WEIGHT
from stream_apple.monitoring.merge_metrics import MergeMetrics

START_S = 120.0  # the kernels may have to be compiled first
PHONE, DESK = (360, 740), (1280, 900)
NARROW = (390, 844)  # the commonest phone
WIDE = (1400, 900)

EXAMPLES = "return Number(document.querySelector('#model-facts dd')?.innerText.replaceAll(',', ''))"
APPLE = "return Number(document.querySelector('#loss-legend li b')?.innerText)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a worker's port is, which learns for as long as the tests run."""
    directory = tmp_path_factory.mktemp("worker")
    (directory / "password").write_text("hunter2")
    with MockCluster() as cluster:
        make_mock_topics(cluster.bootstrap, "examples", "predictions", "dead-letters", "models")
        config = write_config(
            directory / "stream_apple.toml",
            cluster.bootstrap,
            kafka={"sasl.password": f"file:{directory / 'password'}", "log_level": 3},
            worker={"commit_interval": "100ms", "snapshot_interval": "1h"},
            learner={"bits": 14},
            epochs={"length": "1h", "max_ahead": "365d"},
        )
        with WorkerProcess(config, directory / "worker.log") as worker:
            port = worker.http_port
            with click_feed(cluster.bootstrap, "examples"):
                yield f"http://127.0.0.1:{port}/"
            assert worker.running, worker.tail()


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    """The page, on which the pair has been found."""
    browser.screen(*DESK)
    browser.leave()
    browser.requested()
    browser.open(address)
    browser.wait_until(
        "return [...document.querySelectorAll('#monomials .name')].some((each) => each.innerText === arguments[0])",
        PAIR,
        seconds=START_S,
    )
    return browser


def test_is_alive(page: Browser) -> None:
    """Without being touched, it shows more examples, a lower loss, and no complaint in the console."""
    page.wait_until("return document.querySelector('#state').classList.contains('good')")
    page.click("#span-whole")
    loss = page.wait_until(f"return (() => {{ {APPLE} }})()")
    examples = page.run(EXAMPLES)
    page.wait_until(f"return (() => {{ {EXAMPLES} }})() > arguments[0] + 100", examples)
    page.wait_until(f"return (() => {{ {APPLE} }})() < arguments[0]", loss)
    assert (
        page.run("return document.querySelectorAll('#loss-chart path.curve').length") == 4
    )  # published, expanded, linear, best constant
    page.wait_until("return document.querySelectorAll('#loss-chart line.epoch').length > 0", seconds=START_S)
    assert page.complaints() == []


def test_history_is_there_at_first_sight(page: Browser) -> None:
    """A page that is opened later begins with what the worker has kept, not with an empty chart."""
    page.wait_until("return Number(document.querySelector('#v-grow').innerText.split(' ')[0]) > 0")
    page.run("location.reload()")
    page.wait_until(
        "return (document.querySelector('#loss-chart path.c-published')?.getAttribute('d') ?? '').split('L').length > 4"
    )


def test_asks_nobody_else(page: Browser, address: str) -> None:
    """Every request goes to the worker."""
    page.click("#list-top")
    asked = page.requested()
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "chrome:"))}
    assert hosts == {urlsplit(address).netloc}
    assert any("/model?" in url for url in asked)


def test_names_and_messages_of_records_are_text(page: Browser) -> None:
    """A feature and a label that are HTML are shown as they are, and run nothing."""
    page.wait_until(f"return document.querySelector('#letters').innerText.includes({HOSTILE[:12]!r})")
    page.click("#list-top")
    page.wait_until("return document.querySelector('#monomials').innerText.includes(arguments[0])", HOSTILE)
    assert page.run("return document.querySelectorAll('img, iframe, object, script:not([src])').length") == 0
    assert page.run("return window.hacked") is None
    page.click("#list-products")


def test_secrets_are_not_shown(page: Browser) -> None:
    """The configuration is there without the password."""
    assert "bootstrap.servers" in page.text("#config")
    assert "***" in page.text("#config")
    assert "hunter2" not in page.run("return document.documentElement.outerHTML")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_is_readable(page: Browser, tmp_path: Path, size: tuple[int, int], dark: bool) -> None:  # noqa: FBT001
    """On a phone nothing is wider than the screen; in both schemes every text has a contrast of 4.5 and more."""
    page.screen(*size, dark=dark)
    page.wait_until("return document.querySelectorAll('#letters li').length > 0")
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    ground = page.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground) < 64) if dark else (min(ground) > 192)
    page.wait_until(f"return (() => {{ {LOW_CONTRAST} }})().length === 0", seconds=10)
    page.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_tables_fold_on_a_phone(page: Browser) -> None:
    """No table has to be pushed aside: each number stands behind its column's name; on a desk they are tables."""
    wider = (
        "return [...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth).length"
    )
    label = "return getComputedStyle(document.querySelector('#partitions td:nth-child(4)'), '::before').content"
    page.wait_until("return document.querySelectorAll('#tables td').length > 4", seconds=START_S)
    assert page.run(label) == "none"
    page.screen(*NARROW)
    assert page.run(wider) == 0
    assert page.run("return document.documentElement.scrollWidth") <= NARROW[0]
    assert page.run(label).startswith('"examples')
    assert page.run("return document.querySelector('#partitions thead').getBoundingClientRect().width") <= 1


def test_says_what_the_loss_is_measured_in(page: Browser) -> None:
    """By the loss's name, at the curve and at the figure."""
    assert page.text("#loss-unit") == "squared error, in the label\u2019s unit squared"
    page.wait_until("return document.querySelector('#v-loss-more').innerText.startsWith('squared error, ')")


def test_shows_rate_and_lag_over_time(page: Browser) -> None:
    """A curve of each, whose newest value is told in words."""
    for kind in ("rate", "lag"):
        page.wait_until(f"return document.querySelectorAll('#{kind}-chart path.c-{kind}').length === 1")
        page.wait_until(f"return document.querySelector('#{kind}-more').innerText.startsWith('now ')")
    most = "document.querySelector('#rate-more').innerText.match(/at most ([0-9,]+)/)[1].replace(',', '')"
    page.wait_until(f"return Number({most}) > 100")
    page.keys("#rate-chart svg", "\ue012")
    assert "records a second" in page.text("#rate-chart .tip")


def test_the_keyboard_is_enough(page: Browser) -> None:
    """The chart can be read with arrow keys; the choices are buttons that say which is on."""
    page.keys("#loss-chart svg", "\ue012\ue012")
    assert "published" in page.text("#loss-chart .tip")
    page.keys("#span-whole", "\ue007")
    assert page.run("return document.querySelector('#span-whole').getAttribute('aria-pressed')") == "true"
    assert page.run("return document.querySelector('#span-recent').getAttribute('aria-pressed')") == "false"
    label = page.run("return document.querySelector('#loss-chart svg').getAttribute('aria-label')")
    assert "Now: published" in label
    assert "expanded" in label


def test_says_when_the_worker_is_gone_and_when_it_is_back(browser: Browser) -> None:
    """Old numbers are never shown as if they were new: an alert says since when; it goes with the next answer."""
    (port,) = free_ports(1)
    browser.screen(*DESK)
    site = Site(port)
    with site.server:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_until("return document.querySelector('#monomials .name')?.innerText === arguments[0]", PAIR)
        assert HOSTILE_MESSAGE in browser.text("#letters")
        assert "partition" in browser.text("#partition-choice")
        assert browser.text("#gone") == ""
    browser.wait_until("return document.querySelector('#gone').innerText.startsWith('The worker does not answer.')")
    assert "What you see is from " in browser.text("#gone")
    assert browser.text("#state-text") == "no answer"
    assert browser.run("return document.body.classList.contains('stale')")
    again = Site(port)
    with again.server:
        browser.wait_until("return document.querySelector('#gone').hidden")
        assert browser.run("return document.body.classList.contains('stale')") is False
    browser.leave()


def test_what_the_first_records_show(browser: Browser) -> None:
    """Sentences about fields and weights, which nobody sees in a log; nothing if there are none."""
    (port,) = free_ports(1)
    site = Site(port)
    with site.server:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_until("return document.querySelector('#v-loss').innerText.includes('recent loss')")
        assert browser.run("return document.querySelector('#findings').hidden")
        site.input.findings = ("visits: every value is text <b>that</b> spells a number",)
        site.refresh()
        browser.wait_until("return !document.querySelector('#findings').hidden")
        assert browser.text("#findings") == "visits: every value is text <b>that</b> spells a number."
        assert browser.run(LOW_CONTRAST) == []
    browser.leave()


def test_a_model_that_is_not_there_yet_is_told(browser: Browser) -> None:
    """While the chosen partition's model is being restored, the page says so instead of showing another's."""
    (port,) = free_ports(1)
    with Site(port).server:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_until("return document.querySelectorAll('#partition option').length === 2")
        browser.run(
            "const s = document.querySelector('#partition'); s.value = '1'; s.dispatchEvent(new Event('change'))"
        )
        browser.wait_until("return document.querySelector('#found-more').innerText.includes('nothing to show yet')")
        assert browser.text("#monomials") == ""
        assert "restoring, 5 records to go" in browser.text("#partitions")
    browser.leave()


def test_warns_when_something_simpler_is_better(browser: Browser) -> None:
    """Worse than linear or a constant; the expanded predictor, of which less is made; quiet when all is well."""
    (port,) = free_ports(1)
    browser.screen(*DESK)
    site = Site(port)
    progress = site.model.learner.progress
    fine = progress.recent.copy()
    linear = fine[LINEAR_LOSS] / fine[WEIGHT]
    title = "return document.querySelector('#notice-title').innerText === arguments[0]"
    with site.server:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_until("return document.querySelector('#v-loss').innerText.includes('recent loss')")
        assert browser.run("return document.querySelector('#notice').hidden")

        progress.recent[LOSS] = 1.2 * fine[LINEAR_LOSS]
        site.refresh()
        browser.wait_until(title, "Predictions are worse than linear.")
        assert f"partition 0: {1.2 * linear:.4f} against {linear:.4f}" in browser.text("#notice")
        assert browser.run("return document.querySelector('#v-loss').classList.contains('warn')")
        assert "20% above linear" in browser.text("#v-loss-more")
        browser.wait_until(f"return (() => {{ {LOW_CONTRAST} }})().length === 0", seconds=10)

        progress.recent[LOSS] = 3 * fine[LINEAR_LOSS]
        site.refresh()
        browser.wait_until(title, "Predictions are worse than a constant.")

        progress.recent[:] = fine
        progress.recent[LINEAR_LOSS] = fine[LOSS] / 2
        progress.recent[LOSS] = fine[LOSS] / 2
        site.refresh()
        browser.wait_until(title, "The expanded predictor is worse than linear.")
        assert "warn" not in browser.run("return document.querySelector('#v-loss').className")

        progress.recent[:] = fine
        site.refresh()
        browser.wait_until("return document.querySelector('#notice').hidden")
    browser.leave()


@pytest.mark.parametrize("screen", [WIDE, DESK, NARROW])
def test_splines_and_classes_are_drawn(browser: Browser, screen: tuple[int, int]) -> None:
    """Of a model of classes: a row for each, the predictors' errors, and the points of each number."""
    site = Site()
    browser.screen(*screen)
    browser.leave()
    with site.server:
        browser.open(f"http://127.0.0.1:{site.server.port}/")
        browser.wait_until("return document.querySelectorAll('#monomials .name').length > 0")
        shown = "return !document.getElementById('classes-panel').hidden"
        assert browser.run(shown) is False
        model, names = model_of_numbers()
        site.watch.names.add(names.known().items())
        site.show(model)
        browser.wait_until(shown)
        rows = (
            "return [...document.querySelectorAll(arguments[0])].map((row) => [...row.cells].map((c) => c.innerText))"
        )
        classes = browser.run(rows, "#classes tbody tr")
        assert [row[0] for row in classes] == ["2", "0", "1"]
        assert [float(row[4]) < 0.8 for row in classes] == [True] * 3
        assert "Numbers as splines" in browser.run("return document.querySelector('#tables').innerText")
        splines = browser.run(rows, "#tables section:last-child tbody tr")
        assert [row[0] for row in splines] == ["price", "size"]
        assert len(splines[0][2].split(" | ")) == 6
        predictors = browser.run(rows, "#predictors tbody tr")
        assert all(0 < float(row[5]) < 0.5 for row in predictors if row[0] in {"published", "linear", "expanded"})
        cut = "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
        assert browser.run(cut) == 0, "a table is wider than its card"
        bars = browser.run(
            "return [...document.querySelectorAll('#monomials li')].map((row) => "
            "[row.querySelector('i').style.width, row.querySelector('.value').innerText])"
        )
        lengths = [float(width.removesuffix("%")) for width, _ in bars]
        numbers = [abs(float(number.replace("\u2212", "-"))) for _, number in bars]
        shares = [each / numbers[0] for each in numbers]
        assert [each / lengths[0] for each in lengths] == pytest.approx(shares, abs=0.02), "a bar shows its number"
        assert browser.run(LOW_CONTRAST) == []
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints() == []


def test_shows_where_partitions_stand_at_ends_of_rounds(browser: Browser) -> None:
    """Only where models are merged: who waits, how others went on, and who is in the newest merge."""
    (port,) = free_ports(1)
    browser.screen(*NARROW)
    site = Site(port)
    clock = Clock(50.0)
    with site.server:
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_until("return document.querySelector('#v-loss').innerText.includes('recent loss')")
        assert browser.run("return document.querySelector('#merging-panel').hidden")

        merging = MergeMetrics(site.metrics.registry, clock)
        site.metrics.watch_merging(merging.facts)
        site.refresh()
        browser.wait_until(
            "return document.querySelector('#merging-more').innerText.startsWith('This worker has seen no')"
        )
        assert "No partition of this worker has come" in browser.text("#merging")

        for number, outcome in enumerate(("adopted", "late", "skipped")):
            merging.held(number, 494_000 + number)
            merging.went_on(number, outcome, 0.25)
        merging.held(2, 494_003)
        merging.went_on(2, "skipped", 60.0)
        merging.held(3, 494_000)
        clock.now += 7.0
        merging.merged(*summary_of(494_000, (0, 1), {2: "late", 3: "idle"}))
        site.refresh()
        browser.wait_until("return document.querySelectorAll('#merging tbody tr').length === 4")
        told = browser.text("#merging")
        for text in (
            "went on with the merged model",
            "went on with a merge of others",
            "went on alone, 2 times in a row",
            "waits for the merged model",
            "7.0 s",
            "60 s",
            "494003",
        ):
            assert text in told
        more = browser.text("#merging-more")
        assert "Round 494000 has merged 2 partitions: 0, 1; without 2 (late), 3 (without records)." in more
        assert "1 with a merge that the partition is in, 1 with one of others, 2 alone." in more
        assert browser.run("return document.documentElement.scrollWidth") <= NARROW[0]
        browser.wait_until(f"return (() => {{ {LOW_CONTRAST} }})().length === 0", seconds=10)
    browser.leave()
