"""What tests need and this repository does not have: fetched once, or said to be missing."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeAlias

import pytest

SharedFile: TypeAlias = Callable[[str], Path]


class UnavailableError(Exception):
    """This machine can't run something that a test needs; the message says what is missing."""


@contextmanager
def one_at_a_time(directory: Path) -> Iterator[None]:
    """Keep other processes that ask for the same directory waiting, for as long as the context lasts."""
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def fetch_once(place: Path, fetch: Callable[[Path], Path]) -> Path:
    """`place`, a directory that `fetch` makes if it is not there: once, though several processes ask at a time.

    fetch  makes it somewhere in the empty directory that it is given, and returns where; UnavailableError if it can't
    """
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(place.parent):
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=f"{place.name}-") as work:
                # Atomic: an aborted run leaves nothing that looks done.
                fetch(Path(work)).rename(place)
    return place


def reference_file(path: Path) -> Path:
    """`path`, if there is such a file: a folder of the name that is expected may be anybody's."""
    if not path.is_file():
        unavailable(f"there is no reference data at {path}")
    return path


def in_ci() -> bool:
    """Whether this is the place where nothing may be left unproved."""
    return os.environ.get("CI", "").lower() == "true"


def unavailable(reason: str) -> NoReturn:
    """Skip, or fail in CI: a skip that nobody reads would let the promises go unproved where they are to be proved."""
    if in_ci():
        pytest.fail(reason)
    pytest.skip(reason)
