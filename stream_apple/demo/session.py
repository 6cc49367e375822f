"""A run of the demo, from the cluster's start to the count of its answers.

All examples go to one partition. A partition is a model, so there is one curve, that of the algorithm as published;
four models on a quarter of the examples each would all learn less, and their sum would show nothing more.

Examples are sent at a steady pace, slower than the worker could go, so that there is something to watch.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_apple.config import TopicSettings
from stream_apple.config.duration import DAY
from stream_apple.demo.child import Child, ChildSettings
from stream_apple.demo.clicks import clicks
from stream_apple.demo.cluster import EmbeddedCluster
from stream_apple.demo.paced_feed import Feed
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.rate import Rate
from stream_apple.demo.readiness import wait_until_ready
from stream_apple.demo.scrape import Scraper
from stream_apple.demo.state import CurvePoint, DemoReport, DemoResult, View
from stream_apple.demo.viewer import Viewer

DAYS = 8
"""How many days are simulated, one epoch each; the last epoch does not end, as no later example ends it."""
PER_SECOND = 12_000
SEED = 7

_PARTITION = 0
_TOPICS = TopicSettings()  # the cluster is the demo's own: the worker's defaults will do
_SCRAPE_S = 0.25
_STALLED_S = 30.0


class Session:
    """One run of the demo; use once.

    port    of the worker's HTTP server, 0 for any
    screen  shows how the run stands
    viewer  is shown the status page, and says when the worker may end
    """

    def __init__(self, examples: int, port: int, screen: Callable[[View], None], viewer: Viewer) -> None:
        self._port = port
        self._screen = screen
        self._viewer = viewer
        # Whole days that are over: no timestamp lies in the future.
        self._start_ms = (time.time_ns() // 1_000_000 // DAY - DAYS) * DAY
        self._view = View("starting the cluster and the worker", examples, DAYS)

    def run(self) -> DemoReport:
        """Start everything, send the examples, wait for the answers, stop everything.

        ChildEndedError or BrokerError if it can't go on. Predictions that don't come are no error: the report says so.
        """
        self._show()
        with EmbeddedCluster() as cluster, tempfile.TemporaryDirectory(prefix="stream-apple-demo-") as directory:
            partitions = {topic: cluster.partitions(topic) for topic in _TOPICS.names(merging=False)}
            with (
                PredictionReader(cluster.bootstrap, _TOPICS.predictions, partitions[_TOPICS.predictions]) as reader,
                Child("run", Path(directory), self._settings(cluster.bootstrap)) as worker,
            ):
                scraper = wait_until_ready(worker, _PARTITION, self._show)
                self._viewer.show_page(f"{scraper.address}/")
                self._learn(cluster.bootstrap, worker, scraper, reader)
                self._viewer.wait_for_exit(lambda doing: self._show(doing=doing))
                self._show(doing="stopping the worker")
                worker.finish()
                reader.read_to_end()
                self._show(doing="done", answered=reader.answered)
                return self._report(reader)

    def _report(self, reader: PredictionReader) -> DemoReport:
        reading = self._view.reading
        result = DemoResult(
            examples=self._view.examples,
            predictions=reader.answered,
            progressive_loss=reading.whole.apple,
            linear_progressive_loss=reading.whole.linear,
            epochs=self._view.epochs,
            parents=sum(reading.parents),
        )
        return DemoReport(result, reader.repeated, reading)

    def _settings(self, bootstrap: str) -> ChildSettings:
        return {
            "kafka": {"bootstrap.servers": bootstrap, "log_level": 3},
            "worker": {"group": "demo", "id": "demo-0"},
            "learner": {"loss": "logistic"},
            "epochs": {"length": "1d"},
            "http": {"host": "127.0.0.1", "port": self._port},
        }

    def _show(self, **changes: Any) -> None:  # noqa: ANN401  fields of View
        self._view = self._view._replace(**changes)
        self._screen(self._view)

    def _learn(self, bootstrap: str, worker: Child, scraper: Scraper, reader: PredictionReader) -> None:
        """Send everything and watch, until all is answered and accounted for, or nothing more comes."""
        total = self._view.examples
        examples = clicks(total, SEED, self._start_ms, DAYS * DAY)
        self._show(doing="learning")
        rate = Rate()
        scrape_at, give_up_at = 0.0, time.monotonic() + _STALLED_S
        with Feed(bootstrap, _TOPICS.examples, examples, PER_SECOND) as feed:
            while reader.answered < total or self._view.reading.learned < total:
                came = reader.read()
                feed.answered(reader.answered)
                now = time.monotonic()
                if came:
                    give_up_at = now + _STALLED_S
                elif now > give_up_at:
                    return
                if now >= scrape_at:
                    worker.check()
                    self._scrape(scraper)
                    scrape_at = now + _SCRAPE_S
                self._show(answered=reader.answered, per_second=rate.after(now, reader.answered))

    def _scrape(self, scraper: Scraper) -> None:
        try:
            reading = scraper.read()
        except OSError:
            return  # if the worker is gone, the next check says why
        if reading.learned > self._view.reading.learned:
            epochs = reading.epoch - self._start_ms // DAY
            self._view = self._view._replace(
                epochs=epochs, curve=(*self._view.curve, CurvePoint(reading.learned, reading.recent))
            )
        self._view = self._view._replace(reading=reading)
