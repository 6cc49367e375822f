"""A run of the loop, from the cluster's start to the last example.

All of it is in one partition, as without the loop. Impressions wait for their outcomes in real time, so time is real:
a day of the visitors' lives, which is an epoch, passes in some seconds.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from stream_apple.config import JoinSettings, TopicSettings
from stream_apple.config.duration import SECOND
from stream_apple.demo.child import Child, ChildSettings
from stream_apple.demo.cluster import EmbeddedCluster
from stream_apple.demo.loop.asking import Asker
from stream_apple.demo.loop.judging import Judge
from stream_apple.demo.loop.loop_report import Latency, LoopPoint, LoopReport, LoopResult, LoopView
from stream_apple.demo.loop.relay import OffsetsRelay
from stream_apple.demo.loop.site import Site
from stream_apple.demo.paced_feed import Feed
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.rate import Rate
from stream_apple.demo.readiness import wait_until_listening, wait_until_ready
from stream_apple.demo.scrape import Scraper
from stream_apple.demo.traffic import traffic
from stream_apple.demo.viewer import Viewer

REQUESTS_PER_SECOND = 400
DAYS = 10
"""How many days are simulated, one epoch each."""
WAIT_MS = 3_000
"""How long impressions wait for their outcomes."""
SEED = 7

_TOLERANCE_MS = 1_000
_GROUP = "demo"
_PARTITION = 0
_TOPICS, _JOIN = TopicSettings(), JoinSettings()  # the cluster is the demo's own: the defaults will do
_POINTS = 60  # of the curves
_RECENT = 4  # points, over whose answers each is the mean
_LATEST = 1000  # answers whose latency is shown
_WATCH_S = 0.25
_STALLED_S = 30.0


class LoopSession:
    """One run of the loop; use once.

    port    of the worker's HTTP server, 0 for any
    screen  shows how the run stands
    viewer  is shown the worker's status page, and says when everything may end
    """

    def __init__(self, requests: int, port: int, screen: Callable[[LoopView], None], viewer: Viewer) -> None:
        self._port = port
        self._screen = screen
        self._viewer = viewer
        self._day_ms = max(requests * 1000 // REQUESTS_PER_SECOND // DAYS, SECOND)
        self._judge = Judge()
        self._view = LoopView("starting the cluster and the worker", requests)

    def run(self) -> LoopReport:
        """Start everything, ask, wait until all is learned, stop everything.

        ChildEndedError or BrokerError if it can't go on. Examples that don't come are no error: the report says so.
        """
        self._show()
        with ExitStack() as stack:
            cluster = stack.enter_context(EmbeddedCluster())
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-apple-demo-")))
            names = (*_TOPICS.names(merging=False), *_JOIN.topics)
            partitions = {topic: cluster.partitions(topic) for topic in names}
            reader = stack.enter_context(
                PredictionReader(cluster.bootstrap, _TOPICS.predictions, partitions[_TOPICS.predictions])
            )
            relay = stack.enter_context(OffsetsRelay(cluster.bootstrap))
            settings = self._settings(relay.bootstrap, self._port)
            # One after the other: what the first compiles, the others find compiled.
            worker = stack.enter_context(Child("run", directory, settings))
            worker_scraper = wait_until_ready(worker, _PARTITION, self._show)
            self._viewer.show_page(f"{worker_scraper.address}/")
            self._show(doing="starting the joiner and the server")
            settings = self._settings(cluster.bootstrap, 0)
            joiner = stack.enter_context(Child("join", directory, settings))
            server = stack.enter_context(Child("serve", directory, settings))
            joiner_scraper = wait_until_ready(joiner, _PARTITION, self._show_doing, "the joiner")
            asker = stack.enter_context(
                closing(Asker(f"http://127.0.0.1:{wait_until_listening(server)}", _GROUP, _PARTITION))
            )
            visits = islice(traffic(SEED, self._day_ms, broken=0.0), self._view.requests)
            site = Site(visits, asker.ask, WAIT_MS, SEED)
            children = (server, joiner, worker)

            def check() -> None:
                relay.check()
                for child in children:
                    child.check()

            self._turn(cluster.bootstrap, site, check, worker_scraper, reader)
            labelled = int(joiner_scraper.samples().get(("join_impressions_total", "labelled"), 0))
            self._viewer.wait_for_exit(lambda doing: self._show(doing=doing))
            self._show(doing="stopping")
            for child in children:
                child.finish()
            reader.read_to_end()
            self._show(doing="done", examples=reader.answered)
            return self._report(site, labelled, reader)

    def _settings(self, bootstrap: str, port: int) -> ChildSettings:
        """Return what the three commands read: each looks at its own sections."""
        return {
            # The cluster gives the records that end its transactions no valid checksum.
            "kafka": {"bootstrap.servers": bootstrap, "log_level": 3, "check.crcs": False},
            "worker": {"group": _GROUP, "id": "demo-0"},
            "learner": {"loss": "logistic"},
            "epochs": {"length": f"{self._day_ms}ms"},
            "http": {"host": "127.0.0.1", "port": port},
            "join": {"wait": f"{WAIT_MS}ms", "tolerance": f"{_TOLERANCE_MS}ms", "default_label": 0},
            "serve": {"host": "127.0.0.1", "port": 0},
        }

    def _show(self, **changes: Any) -> None:  # noqa: ANN401  fields of LoopView
        self._view = self._view._replace(**changes)
        self._screen(self._view)

    def _show_doing(self, *, doing: str = "", address: str = "") -> None:  # noqa: ARG002  the worker's is shown
        if doing:
            self._show(doing=doing)

    def _turn(
        self, bootstrap: str, site: Site, check: Callable[[], None], worker: Scraper, reader: PredictionReader
    ) -> None:
        """Send visitors to the site and watch, until all impressions are judged and learned, or nothing comes."""
        total = self._view.requests
        rate, watch_at, give_up_at = Rate(), 0.0, time.monotonic() + _STALLED_S
        impressions = Feed(bootstrap, _JOIN.impressions, site.impressions(), REQUESTS_PER_SECOND)
        outcomes = Feed(bootstrap, _JOIN.outcomes, site.outcomes(), 10 * REQUESTS_PER_SECOND)
        with impressions, outcomes, site:
            while self._judge.judged < total or reader.answered < total or self._view.reading.learned < total:
                came = reader.read() + self._judge_decided(site)
                impressions.answered(reader.answered)
                outcomes.answered(outcomes.sent)
                now = time.monotonic()
                if came:
                    give_up_at = now + _STALLED_S
                elif now > give_up_at:
                    return
                if now >= watch_at:
                    check()
                    self._watch(site, worker, reader)
                    watch_at = now + _WATCH_S
                self._show(asked=site.asked, per_second=rate.after(now, site.asked))

    def _judge_decided(self, site: Site) -> int:
        """Judge the impressions that have been decided; return how many there were."""
        count = 0
        step = max(self._view.requests // _POINTS, 1)
        for shown in site.decided():
            self._judge.take(shown)
            count += 1
            if self._judge.judged % step == 0:
                recent = self._judge.judgement(max(self._judge.judged - _RECENT * step, 0))
                point = LoopPoint(self._judge.judged, recent)
                self._view = self._view._replace(recent=recent, curve=(*self._view.curve, point))
        return count

    def _watch(self, site: Site, worker: Scraper, reader: PredictionReader) -> None:
        try:
            reading = worker.read()
        except OSError:
            reading = self._view.reading  # if the worker is gone, the next check says why
        self._view = self._view._replace(
            doing=self._doing(site),
            reading=reading,
            answered=site.answered,
            judged=self._judge.judged,
            undecided=site.undecided,
            clicks_to_come=site.clicks_to_come,
            examples=reader.answered,
            latency=_latency(list(site.latencies)[-_LATEST:]),
        )

    def _doing(self, site: Site) -> str:
        if site.asked == self._view.requests:
            return "waiting for the last outcomes"
        return "answering and learning" if site.answered else "asking; there is no model yet, so nobody answers"

    def _report(self, site: Site, labelled: int, reader: PredictionReader) -> LoopReport:
        last_third = self._view.requests * 2 // 3
        judgement, latency = self._judge.judgement(last_third), _latency(list(site.latencies))
        result = LoopResult(
            requests=self._view.requests,
            answered=site.answered,
            clicks=site.clicks,
            labelled=labelled,
            examples=self._view.reading.learned,
            latency_median_ms=latency.median_ms,
            latency_p99_ms=latency.p99_ms,
            last_third_unanswered=self._judge.unanswered(last_third),
            last_third_loss=judgement.answers,
            last_third_constant_loss=judgement.constant,
        )
        return LoopReport(result, reader.answered, reader.repeated)


def _latency(seconds: list[float]) -> Latency:
    if not seconds:
        return Latency(0.0, 0.0)
    median, p99 = np.percentile(seconds, (50, 99)).tolist()
    return Latency(1000 * median, 1000 * p99)
