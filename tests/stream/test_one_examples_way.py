"""The page on the architecture tells the way that one example really goes."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from simulation.cluster import MemoryCluster
from simulation.process import TOPICS, Process, Setup
from support.records import good
from support.source_files import PACKAGE, ROOT

from stream_apple.stream.loop.transaction import CommitSettings

MOST_FILES = 20
STEP = re.compile(r"^\d+\. `(.+):(.+)`", re.MULTILINE)
OUT_OF_SIGHT = ("adapters/", "records/message/parse", "learners/apple/kernels/")
"""A cluster in memory takes the place of Kafka's client. From Python 3.12 on, no profiler hears of compiled code."""


def told_way() -> list[tuple[str, str]]:
    """Module and name of each step, as the page has them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return STEP.findall(page[page.index("## One example's way") :])


@contextmanager
def seen_calls() -> Iterator[list[tuple[str, str]]]:
    """Module and name of each function of the package that is called meanwhile, in their order."""
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.append((str(path.relative_to(PACKAGE).with_suffix("")), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.fixture
def calls() -> list[tuple[str, str]]:
    """What a worker that is live calls for one more example, up to the commit."""
    cluster = MemoryCluster(dict.fromkeys(TOPICS, 1))
    setup = Setup()
    at_once = setup.loop._replace(commits=CommitSettings(outputs=1, interval_s=3600.0))
    worker = Process(cluster, setup=setup._replace(loop=at_once))
    worker.loop.start()
    cluster.load(TOPICS.examples, [good(0)])
    while not worker.live or worker.owned.by_number[0].committed_offset < 1:
        worker.loop.iterate()
    cluster.load(TOPICS.examples, [good(1)])
    with seen_calls() as found:
        while worker.owned.by_number[0].committed_offset < 2:
            worker.loop.iterate()
    return found


def test_the_way_that_is_told_is_the_way(calls: list[tuple[str, str]]) -> None:
    """Each step is taken, in the order of the page."""
    steps = [step for step in told_way() if not step[0].startswith(OUT_OF_SIGHT)]
    first = [calls.index(step) for step in steps]
    assert len(steps) > 10
    assert first == sorted(first)


def test_the_way_is_short() -> None:
    """So that a newcomer can follow it: no file twice, and no more of them."""
    files = [module for module, _ in told_way()]
    assert len(set(files)) == len(files) <= MOST_FILES
