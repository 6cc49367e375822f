"""What both runs of the demo share: what is started and stopped, what is shown, and the wait for the last example.

All examples are in one partition. A partition is a model, so there is one curve, that of the algorithm as published;
four models on a quarter of the examples each would all learn less, and their sum would show nothing more.
"""

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from stream_apple.config import TopicSettings
from stream_apple.demo.child import Child, ChildSettings
from stream_apple.demo.cluster import EmbeddedCluster
from stream_apple.demo.predictions import PredictionReader
from stream_apple.demo.scrape import Reading, reading_of
from stream_apple.demo.state import SomeView
from stream_apple.demo.viewer import Viewer

TOPICS = TopicSettings()  # the cluster is the demo's own: the worker's defaults will do
SEED = 7

_RATE_S = 2.0
_LOOK_S = 0.25
_STALLED_S = 30.0


class DemoRun(Generic[SomeView]):
    """One run; use once.

    port    of the worker's HTTP server, 0 for any
    screen  shows how the run stands
    viewer  is shown the worker's status page, and says when everything may end

    view    how the run stands now
    """

    def __init__(self, view: SomeView, port: int, screen: Callable[[SomeView], None], viewer: Viewer) -> None:
        self.view = view
        self.viewer = viewer
        self._port = port
        self._screen = screen
        self._counts: deque[tuple[float, int]] = deque()

    def show(self, **changes: Any) -> None:  # noqa: ANN401  fields of the view
        """Change the view, and show it."""
        self.view = replace(self.view, **changes)
        self._screen(self.view)

    def tell(self, doing: str) -> None:
        """Show what is being done."""
        self.show(doing=doing)

    @contextmanager
    def started(self, topics: Sequence[str]) -> Iterator[tuple[EmbeddedCluster, Path, PredictionReader]]:
        """Yield a cluster that has these topics, a directory for processes, and a reader of the predictions."""
        self.show()
        with EmbeddedCluster() as cluster, tempfile.TemporaryDirectory(prefix="stream-apple-demo-") as directory:
            partitions = {topic: cluster.partitions(topic) for topic in topics}
            with PredictionReader(cluster.bootstrap, TOPICS.predictions, partitions[TOPICS.predictions]) as reader:
                yield cluster, Path(directory), reader

    def settings(self, bootstrap: str, epoch: str) -> ChildSettings:
        """Return the worker's settings; `epoch` is the length of one, such as 1d."""
        return {
            "kafka": {"bootstrap.servers": bootstrap, "log_level": 3},
            "worker": {"group": "demo", "id": "demo-0"},
            "learner": {"loss": "logistic"},
            "epochs": {"length": epoch},
            "http": {"host": "127.0.0.1", "port": self._port},
        }

    def open_page(self, worker: Child) -> None:
        """Wait until the worker is ready, and show its status page."""
        worker.wait_until_listening()
        self.show(address=worker.address)
        worker.wait_until_ready(self.tell, "the worker")
        self.viewer.show_page(f"{worker.address}/")

    def turns(self, unfinished: Callable[[], bool], read: Callable[[], int]) -> Iterator[bool]:
        """Read on until all has come, or nothing more comes; yield in each turn whether it is time for a look.

        read  returns how much has come
        """
        look_at, give_up_at = 0.0, time.monotonic() + _STALLED_S
        while unfinished():
            came, now = read(), time.monotonic()
            if came:
                give_up_at = now + _STALLED_S
            elif now > give_up_at:
                return
            look = now >= look_at
            if look:
                look_at = now + _LOOK_S
            yield look

    def per_second(self, count: int) -> float:
        """Return how much the count has grown per second in the last two seconds, given its value now; 0 at first."""
        now = time.monotonic()
        self._counts.append((now, count))
        while self._counts[0][0] < now - _RATE_S:
            self._counts.popleft()
        then, before = self._counts[0]
        return (count - before) / (now - then) if now > then else 0.0

    def reading(self, worker: Child) -> Reading:
        """Return the worker's metrics; the last ones if it does not answer: if it is gone, the next check says why."""
        try:
            return reading_of(worker.metrics())
        except OSError:
            return self.view.reading

    def finish(self, children: Sequence[Child], reader: PredictionReader) -> None:
        """Stop everything when the viewer says so, and read all predictions; ChildEndedError if a process fails."""
        self.viewer.wait_for_exit(self.tell)
        self.tell("stopping")
        for child in children:
            child.finish()
        reader.read_to_end()
