"""A run of the demo, from the cluster's start to the count of its answers.

Examples are sent at a steady pace, slower than the worker could go, so that there is something to watch.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from stream_apple.config.duration import DAY
from stream_apple.demo.child import Child
from stream_apple.demo.clicks import clicks
from stream_apple.demo.demo_run import SEED, TOPICS, DemoRun
from stream_apple.demo.paced_feed import Feed
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.state import DAYS, CurvePoint, DemoReport, DemoResult, View
from stream_apple.demo.viewer import Viewer

PER_SECOND = 12_000


class Session(DemoRun[View]):
    """One run of the demo; use once."""

    def __init__(self, examples: int, port: int, screen: Callable[[View], None], viewer: Viewer) -> None:
        super().__init__(View(doing="starting the cluster and the worker", total=examples), port, screen, viewer)
        # Whole days that are over: no timestamp lies in the future.
        self._start_ms = (time.time_ns() // 1_000_000 // DAY - DAYS) * DAY

    def run(self) -> DemoReport:
        """Start everything, send the examples, wait for the answers, stop everything.

        ChildEndedError or BrokerError if it can't go on. Predictions that don't come are no error: the report says so.
        """
        with (
            self.started(TOPICS.names(merging=False)) as (cluster, directory, reader),
            Child("run", directory, self.settings(cluster.bootstrap, "1d")) as worker,
        ):
            self.open_page(worker)
            self._learn(cluster.bootstrap, worker, reader)
            self.finish([worker], reader)
            self.show(doing="done", answered=reader.answered)
            return self._report(reader)

    def _report(self, reader: PredictionReader) -> DemoReport:
        reading = self.view.reading
        result = DemoResult(
            examples=self.view.total,
            predictions=reader.answered,
            progressive_loss=reading.whole.apple,
            linear_progressive_loss=reading.whole.linear,
            epochs=self.view.epochs,
            parents=sum(reading.parents),
        )
        return DemoReport(result, reader.repeated, reading)

    def _learn(self, bootstrap: str, worker: Child, reader: PredictionReader) -> None:
        """Send everything and watch, until all is answered and accounted for, or nothing more comes."""
        total = self.view.total
        self.tell("learning")
        with Feed(bootstrap, TOPICS.examples, clicks(total, SEED, self._start_ms, DAYS * DAY), PER_SECOND) as feed:
            for look in self.turns(lambda: min(reader.answered, self.view.reading.learned) < total, reader.read):
                feed.answered(reader.answered)
                if look:
                    worker.check()
                    self._look(worker)
                self.show(answered=reader.answered, per_second=self.per_second(reader.answered))

    def _look(self, worker: Child) -> None:
        reading = self.reading(worker)
        if reading.learned > self.view.reading.learned:
            epochs = reading.epoch - self._start_ms // DAY
            curve = (*self.view.curve, CurvePoint(reading.learned, *reading.recent))
            self.view = replace(self.view, epochs=epochs, curve=curve)
        self.view = replace(self.view, reading=reading)
