"""What all tests share: brokers, topics, reference data, Hypothesis's profile."""

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
import structlog
from confluent_kafka.admin import AdminClient
from core.machine_code import Compiled, compile_all
from hypothesis import settings
from structlog.testing import capture_logs
from structlog.typing import EventDict
from support.kafka.broker import Broker, resolve_jars
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.required import SharedFile, UnavailableError, reference_file, unavailable
from support.topics import TopicFactory, unique_topics
from support.waiting import DEADLINE_S

# The suite has hundreds of processes. Where Python is told to keep no bytecode, each would compile the product anew,
# and each that shares the suite every test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Read by SciPy when it is imported: without it scikit-learn's suite for estimators skips a check.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

settings.register_profile("stream_apple", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("stream_apple")

_LONGEST = ("end_to_end", "test_notebooks.py", "simulation", "demo", "status_page", "deploy", "security", "stream")
"""Folders and files, in the order in which they are begun with."""
_BOOTSTRAP = "STREAM_APPLE_TEST_BOOTSTRAP"
_OWN_BROKER = pytest.StashKey[str | None]()


def pytest_configure(config: pytest.Config) -> None:
    """Take the address of the user's broker out of the environment.

    The product refuses variables of its prefix that it does not know. A process that only hands out tests to others
    starts a broker for all of them, unless the user has one.
    """
    if config.getoption("dist", "no") == "no":
        config.stash[_OWN_BROKER] = os.environ.pop(_BOOTSTRAP, None)
    elif _BOOTSTRAP not in os.environ:
        _start_shared_broker(config)


def _start_shared_broker(config: pytest.Config) -> None:
    """Start a broker that lives as long as this process, and leave its address for those that it starts."""
    try:
        jars = resolve_jars()
    except UnavailableError:
        return  # each test that needs one says so
    directory = TemporaryDirectory(prefix="stream-apple-kafka-")
    config.add_cleanup(directory.cleanup)
    broker = Broker(Path(directory.name), jars)
    config.add_cleanup(broker.kill)
    broker.start()
    os.environ[_BOOTSTRAP] = broker.bootstrap


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no garbage be looked for among what stays: modules, and ten thousand tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the real broker, so that `-m "not broker"` leaves them out; put long ones first.

    Of several processes that share the suite, file by file, none is then left alone with a long file in the end. The
    other files come by their names: those that wait for a broker are then among those that compute.
    """
    for item in items:
        if {"kafka", "jars"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, str]:
    for at, name in enumerate(_LONGEST):
        if name in item.path.parts:
            return at, ""
    return len(_LONGEST), item.path.name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was proved anew, and how to record it: reports come here from every process that shares the suite."""
    reports = terminalreporter.getreports("passed")
    anew = {str(value) for report in reports for name, value in report.user_properties if name == "proved_anew"}
    if anew:
        told = "their files have changed since they were recorded; `make prove` records them"
        terminalreporter.write_line(f"proved anew: {', '.join(sorted(anew))}: {told}")


@pytest.fixture(scope="session", autouse=True)
def commands_end_by_an_exception() -> Iterator[None]:
    """Let a command that fails in the test's process end by an exception: it would take the process with it."""

    def crash(error: Exception) -> NoReturn:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_apple.cli.leave", sys.exit)
        patch.setattr("stream_apple.cli.crash", crash)
        yield


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kafka's jars, for tests that start and break brokers of their own."""
    try:
        return resolve_jars()
    except UnavailableError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real broker that all tests share: no test stops it, or relies on its being empty."""
    if bootstrap := request.config.stash[_OWN_BROKER]:
        yield bootstrap
        return
    broker = Broker(tmp_path_factory.mktemp("kafka"), request.getfixturevalue("jars"))
    broker.start()
    try:
        yield broker.bootstrap
    finally:
        broker.kill()


@pytest.fixture
def topic(kafka: str) -> Iterator[TopicFactory]:
    """Make a topic: `topic("examples", partitions=2, config={...})` returns a name that was never used."""
    create = unique_topics(kafka)
    made: list[str] = []

    def make(*arguments: Any, **settings: Any) -> str:
        made.append(create(*arguments, **settings))
        return made[-1]

    yield make
    if made:
        client = AdminClient({"bootstrap.servers": kafka})  # its futures end with it
        for future in client.delete_topics(made).values():
            future.result(DEADLINE_S)


@pytest.fixture
def mock_cluster() -> Iterator[str]:
    """Bootstrap address of librdkafka's in-process cluster: any topic is there, with 4 partitions."""
    with MockCluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture
def mock_examples(mock_cluster: str) -> str:
    """A cluster with the topic `examples` of four partitions."""
    make_mock_topics(mock_cluster, "examples")
    return mock_cluster


@pytest.fixture
def log_events() -> Iterator[list[EventDict]]:
    """What the code under test logs: each event as a map, its name under `event`, its level under `log_level`."""
    with capture_logs() as events:
        yield events


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """What `stream-apple compile` leaves, for this processor."""
    return compile_all(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def shared() -> SharedFile:
    """Find a file of the reference data that lies beside the repository: `shared("data/a9a.svm.gz")`."""
    folder = Path(__file__).resolve().parent.parent.parent / "shared"
    return lambda name: reference_file(folder / name)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Logging that a test may configure: afterwards the process has its own again."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
