"""When a worker that starts takes its predecessor's place: when it can go on itself, and not before."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from stream_apple.app.model_factories import settings_of
from stream_apple.app.startup import Opening
from stream_apple.app.worker import run
from stream_apple.config import Config, load
from stream_apple.core import jit
from stream_apple.errors import ConfigurationError
from stream_apple.http.listener import listen
from stream_apple.signals import Signals
from stream_apple.stream.model.warmup import is_warm


class FencingError(Exception):
    """The worker has come so far."""


class Connection:
    """Of a cluster that nobody needs before the fencing."""

    reachable = True

    def start_fencing(self, permitted: Callable[[], object]) -> None:
        """If it is permitted."""
        permitted()
        raise FencingError


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where it is noted that kernels are in the cache: nothing is, whatever this process has compiled."""
    monkeypatch.setattr(jit, "CACHE", tmp_path)
    return tmp_path


@pytest.fixture
def config() -> Config:
    """Of a worker."""
    return load(None, {"STREAM_APPLE_WORKER__ID": "one", "STREAM_APPLE_LEARNER__METHOD": "linear"})


def start(config: Config, refusal: Exception | None = None) -> None:
    """Run a worker up to the fencing, which has been permitted, or to its refusal."""
    permission: Future[None] = Future()
    if refusal is None:
        permission.set_result(None)
    else:
        permission.set_exception(refusal)
    opening = Opening(listen("127.0.0.1", 0), cast("Any", Connection()), permission)
    run(config, opening, Signals())


def test_kernels_are_compiled_first(notes: Path, config: Config) -> None:
    """A predecessor works on for the minute that this may take."""
    assert not is_warm(settings_of(config))
    with pytest.raises(FencingError):
        start(config)
    assert is_warm(settings_of(config))
    assert [note.name.partition("-")[0] for note in notes.iterdir()] == ["complete"]


def test_kernels_that_are_in_the_cache_are_loaded_meanwhile(notes: Path, config: Config) -> None:
    """Nothing is waited for: the fencing takes as long as the loading."""
    with pytest.raises(FencingError):
        start(config)
    (note,) = notes.iterdir()
    os.utime(note, (0, 0))
    with pytest.raises(FencingError):
        start(config)
    assert note.stat().st_mtime == 0, "kernels were loaded before"


def test_who_is_refused_compiles_nothing(notes: Path, config: Config) -> None:
    """Whoever has mistyped a topic hears of it at once."""
    with pytest.raises(ConfigurationError, match="no such topic"):
        start(config, ConfigurationError("no such topic"))
    assert list(notes.iterdir()) == []


def test_other_numbers_need_no_other_kernels(notes: Path, config: Config) -> None:
    """But another loss does."""
    with pytest.raises(FencingError):
        start(config)
    assert len(list(notes.iterdir())) == 1

    def warm(name: str, value: str) -> bool:
        variables = {"STREAM_APPLE_LEARNER__METHOD": "linear", f"STREAM_APPLE_LEARNER__{name}": value}
        return is_warm(settings_of(load(None, variables)))

    assert warm("LEARNING_RATE", "0.25")
    assert warm("BITS", "20")
    assert not warm("LOSS", "logistic")
