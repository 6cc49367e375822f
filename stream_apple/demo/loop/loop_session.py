"""A run of the loop, from the cluster's start to the last example.

All of it is in one partition, as without the loop. Impressions wait for their outcomes in real time, so time is real:
a day of the visitors' lives, which is an epoch, passes in some seconds.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import islice

import numpy as np

from stream_apple.config import JoinSettings
from stream_apple.config.duration import SECOND
from stream_apple.demo.child import Child
from stream_apple.demo.demo_run import SEED, TOPICS, DemoRun
from stream_apple.demo.loop.asking import Asker
from stream_apple.demo.loop.judging import Judge
from stream_apple.demo.loop.loop_report import NO_LATENCY, Latency, LoopReport, LoopResult, LoopView
from stream_apple.demo.loop.relay import OffsetsRelay
from stream_apple.demo.loop.site import Site
from stream_apple.demo.paced_feed import Feed
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.scrape import samples_of
from stream_apple.demo.state import CurvePoint
from stream_apple.demo.traffic import traffic
from stream_apple.demo.viewer import Viewer

REQUESTS_PER_SECOND = 400
DAYS = 10
"""How many days are simulated, one epoch each."""
WAIT_MS = 3_000
"""How long impressions wait for their outcomes."""

_TOLERANCE_MS = 1_000
_JOIN = JoinSettings()
_POINTS = 60  # of the curves
_RECENT = 4  # points, over whose answers each is the mean
_LATEST = 1000  # answers whose latency is shown


class LoopSession(DemoRun[LoopView]):
    """One run of the loop; use once."""

    def __init__(self, requests: int, port: int, screen: Callable[[LoopView], None], viewer: Viewer) -> None:
        super().__init__(LoopView(doing="starting the cluster and the worker", total=requests), port, screen, viewer)
        self._day_ms = max(requests * 1000 // REQUESTS_PER_SECOND // DAYS, SECOND)
        self._judge = Judge()

    def run(self) -> LoopReport:
        """Start everything, ask, wait until all is learned, stop everything.

        ChildEndedError or BrokerError if it can't go on. Examples that don't come are no error: the report says so.
        """
        with ExitStack() as stack:
            topics = (*TOPICS.names(merging=False), *_JOIN.topics)
            cluster, directory, reader = stack.enter_context(self.started(topics))
            relay = stack.enter_context(OffsetsRelay(cluster.bootstrap))
            settings = self.settings(relay.bootstrap, f"{self._day_ms}ms")
            # The cluster gives the records that end its transactions no valid checksum.
            settings["kafka"]["check.crcs"] = False
            settings["join"] = {"wait": f"{WAIT_MS}ms", "tolerance": f"{_TOLERANCE_MS}ms", "default_label": 0}
            settings["serve"] = {"host": "127.0.0.1", "port": 0}
            # One after the other: what the first compiles, the others find compiled.
            worker = stack.enter_context(Child("run", directory, settings))
            self.open_page(worker)
            self.tell("starting the joiner and the server")
            settings["kafka"]["bootstrap.servers"], settings["http"]["port"] = cluster.bootstrap, 0
            joiner = stack.enter_context(Child("join", directory, settings))
            server = stack.enter_context(Child("serve", directory, settings))
            joiner.wait_until_listening()
            joiner.wait_until_ready(self.tell, "the joiner")
            server.wait_until_listening()
            group = str(settings["worker"]["group"])
            asker = stack.enter_context(closing(Asker(server.address, group, partition=0)))
            site = Site(islice(traffic(SEED, self._day_ms, broken=0.0), self.view.total), asker.ask, WAIT_MS, SEED)
            children = (server, joiner, worker)

            def check() -> None:
                relay.check()
                for child in children:
                    child.check()

            self._turn(cluster.bootstrap, site, check, worker, reader)
            labelled = int(samples_of(joiner.metrics()).get(("join_impressions_total", "labelled"), 0))
            self.finish(children, reader)
            self.show(doing="done", examples=reader.answered)
            return self._report(site, labelled, reader)

    def _turn(
        self, bootstrap: str, site: Site, check: Callable[[], None], worker: Child, reader: PredictionReader
    ) -> None:
        """Send visitors to the site and watch, until all impressions are judged and learned, or nothing comes."""
        total = self.view.total
        impressions = Feed(bootstrap, _JOIN.impressions, site.impressions(), REQUESTS_PER_SECOND)
        outcomes = Feed(bootstrap, _JOIN.outcomes, site.outcomes(), 10 * REQUESTS_PER_SECOND)
        with impressions, outcomes, site:
            for look in self.turns(
                lambda: min(self._judge.judged, reader.answered, self.view.reading.learned) < total,
                lambda: reader.read() + self._judge_decided(site),
            ):
                impressions.answered(reader.answered)
                outcomes.answered(outcomes.sent)
                if look:
                    check()
                    self._look(site, worker, reader)
                self.show(asked=site.asked, per_second=self.per_second(site.asked))

    def _judge_decided(self, site: Site) -> int:
        """Judge the impressions that have been decided; return how many there were."""
        count = 0
        step = max(self.view.total // _POINTS, 1)
        for shown in site.decided():
            self._judge.take(shown)
            count += 1
            if self._judge.judged % step == 0:
                recent = self._judge.judgement(max(self._judge.judged - _RECENT * step, 0))
                curve = (*self.view.curve, CurvePoint(self._judge.judged, *recent))
                self.view = replace(self.view, recent=recent, curve=curve)
        return count

    def _look(self, site: Site, worker: Child, reader: PredictionReader) -> None:
        self.view = replace(
            self.view,
            doing=self._doing(site),
            reading=self.reading(worker),
            answered=site.answered,
            undecided=site.undecided,
            clicks_to_come=site.clicks_to_come,
            examples=reader.answered,
            latency=_latency(list(site.latencies)[-_LATEST:]),
        )

    def _doing(self, site: Site) -> str:
        if site.asked == self.view.total:
            return "waiting for the last outcomes"
        return "answering and learning" if site.answered else "asking; there is no model yet, so nobody answers"

    def _report(self, site: Site, labelled: int, reader: PredictionReader) -> LoopReport:
        last_third = self.view.total * 2 // 3
        judgement, latency = self._judge.judgement(last_third), _latency(list(site.latencies))
        result = LoopResult(
            requests=self.view.total,
            answered=site.answered,
            clicks=site.clicks,
            labelled=labelled,
            examples=self.view.reading.learned,
            latency_median_ms=latency.median_ms,
            latency_p99_ms=latency.p99_ms,
            last_third_unanswered=self._judge.unanswered(last_third),
            last_third_loss=judgement.answers,
            last_third_constant_loss=judgement.constant,
        )
        return LoopReport(result, reader.answered, reader.repeated)


def _latency(seconds: list[float]) -> Latency:
    if not seconds:
        return NO_LATENCY
    median, p99 = np.percentile(seconds, (50, 99)).tolist()
    return Latency(1000 * median, 1000 * p99)
