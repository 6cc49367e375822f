"""Workers of two versions in one group: answers stay exactly once, or the newer version refuses and loses nothing."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Protocol

import pytest
from end_to_end.expected_outputs import Outputs
from end_to_end.feeder import feeder
from support.required import unavailable
from support.source_files import PACKAGE, ROOT
from support.topics import TopicFactory, create_worker_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import DEADLINE_S, WorkerProcess

from stream_apple.config import Config, load
from stream_apple.core.jit import CACHE
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.stream.positions.lineage import FORMAT

PARTITIONS = 2
READING_S = 0.3
COMPILED_S = 500.0  # 45 s on a core of its own, for which other tests compete
pytestmark = pytest.mark.timeout(900)
NAMES = ("first", "second")
_LINEAGE = Path("stream_apple/stream/positions/lineage.py")


class Start(Protocol):
    """Starts a worker process of the version whose sources are in the directory."""

    def __call__(self, name: str, sources: Path) -> WorkerProcess:
        """A process under the name, which is its identity in the group."""
        ...


@pytest.fixture
def deployed(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[tuple[str, Config, Start]]:
    """A broker, the configuration of a group on new topics, and what starts its workers; none outlives the test."""
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics=create_worker_topics(topic, PARTITIONS),
        worker={"commit_interval": "40ms", "snapshot_interval": "1s", "fetch_records": 400},
        # Only settings that both versions know.
        learner={"method": "linear", "bits": 12},
        limits={"max_features": 16},
    )
    with ExitStack() as started:

        def start(name: str, sources: Path) -> WorkerProcess:
            settings = _environment(sources)
            return started.enter_context(WorkerProcess(path, tmp_path / f"{name}.log", name, settings=settings))

        yield kafka, load(path, {}), start


def _environment(sources: Path) -> dict[str, str]:
    """Variables with which Python imports the package from there, and not from the current directory.

    Kernels are in the cache of this version: their folder's name has a digest of the sources that compile them.
    """
    return {"PYTHONPATH": str(sources), "PYTHONSAFEPATH": "1", "NUMBA_CACHE_DIR": str(CACHE.parent)}


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=True).stdout
    except OSError as error:
        unavailable(f"expected git, to read the previous version, found {error}")
    except subprocess.CalledProcessError as error:
        unavailable(f"expected the repository's history: git {' '.join(arguments)}: {error.stderr.decode().strip()}")


def _previous_version(directory: Path) -> Path:
    """Extract the package as it was before its last change; what is not committed yet is a change, too."""
    top = Path(_git("rev-parse", "--show-toplevel").decode().strip())
    if top != ROOT:
        unavailable(f"expected the history of {ROOT}, found that of {top}")
    changed = _git("status", "--porcelain", "--", "stream_apple").strip()
    last = _git("log", "-1", "--format=%H", "--", "stream_apple").decode().strip()
    commit = "HEAD" if changed else _git("rev-parse", "--verify", f"{last}^1").decode().strip()
    with tarfile.open(fileobj=BytesIO(_git("archive", commit, "stream_apple"))) as archive:
        archive.extractall(directory, filter="data")
    return directory


def _imported_from(sources: Path) -> Path:
    """Where a worker of these sources has its package from."""
    script = "import stream_apple; print(stream_apple.__file__)"
    environment = {**os.environ, **_environment(sources)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()).parent


def _continues(worker: WorkerProcess, outputs: Outputs) -> None:
    """Wait until each partition has 100 further answers."""
    for number in range(PARTITIONS):
        target = outputs.written(number) + 100
        worker.wait_until(lambda n=number, t=target: outputs.written(n) >= t, f"{number} continued")  # type: ignore[misc]


def _takes_over(worker: WorkerProcess) -> bool:
    """Whether the worker continues with the models that it finds; False if it refuses, and names how to start over."""
    worker_answers = wait_until(
        lambda: "live" if "live" in worker.events() else "" if worker.running else "ended",
        lambda: f"the worker continues or refuses:\n{worker.tail()}",
        DEADLINE_S,
    )
    if worker_answers == "live":
        return True
    code, words = worker.end()
    assert code in {ConfigurationError.exit_code, SnapshotError.exit_code}, words
    assert "use a new worker.group" in words
    return False


def test_workers_of_two_versions_answer_exactly_once(deployed: tuple[str, Config, Start], tmp_path: Path) -> None:
    """Kill each worker of the previous version, and replace it by one of this version, while records come.

    If this version refuses the previous one's models, that one continues, and no answer is missing or repeated.
    """
    kafka, config, start = deployed
    previous = _previous_version(tmp_path / "previous")
    assert _imported_from(previous) == previous / "stream_apple"
    outputs = Outputs(kafka, config, PARTITIONS)
    with feeder(kafka, config.topics.examples, PARTITIONS):
        workers = {}
        for name in NAMES:  # one after the other, as two would compile the same kernels
            workers[name] = start(name, previous)
            workers[name].wait_until(lambda n=name: "live" in workers[n].events(), "it was live", seconds=COMPILED_S)  # type: ignore[misc]
        for worker in workers.values():
            worker.wait_for_event("snapshot_written")
        workers["first"].kill()
        workers["first"] = start("first", ROOT)
        upgraded = _takes_over(workers["first"])
        if upgraded:
            _continues(workers["first"], outputs)
            workers["second"].kill()
            workers["second"] = start("second", ROOT)
            workers["second"].wait_for_event("live")
            _continues(workers["second"], outputs)
            # A rollback, too: the previous version continues from this one's snapshots.
            workers["first"].wait_for_event("snapshot_written")
            workers["first"].kill()
        workers["first"] = start("first", previous)
        workers["first"].wait_for_event("live")
        _continues(workers["first"], outputs)
    workers["first"].wait_until(outputs.complete(), "everything was published", READING_S)
    assert [worker.terminate() for worker in workers.values()] == [0, 0]
    if upgraded:
        outputs.check()
    else:
        outputs.check_once()


def test_a_version_of_another_format_refuses_and_loses_nothing(
    deployed: tuple[str, Config, Start], tmp_path: Path
) -> None:
    """A worker whose models would differ ends with 78; the version before it continues with every answer."""
    kafka, config, start = deployed
    other = tmp_path / "other"
    shutil.copytree(PACKAGE, other / "stream_apple", ignore=shutil.ignore_patterns("__pycache__"))
    lineage, found = other / _LINEAGE, f"FORMAT = {FORMAT}\n"
    text = lineage.read_text(encoding="utf-8")
    assert found in text
    lineage.write_text(text.replace(found, f"FORMAT = {FORMAT + 1}\n"), encoding="utf-8")
    outputs = Outputs(kafka, config, PARTITIONS)
    with feeder(kafka, config.topics.examples, PARTITIONS):
        worker = start("first", ROOT)
        worker.wait_for_event("live")
        _continues(worker, outputs)
        worker.kill()
        code, words = start("first", other).end()
        assert code == ConfigurationError.exit_code
        assert f"expected a note of format {FORMAT + 1}" in words
        assert "to start over, use a new worker.group" in words
        worker = start("first", ROOT)
        worker.wait_for_event("live")
        _continues(worker, outputs)
    worker.wait_until(outputs.complete(), "everything was published", READING_S)
    assert worker.terminate() == 0
    outputs.check()
