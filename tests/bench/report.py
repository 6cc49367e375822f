"""What every benchmark says of itself: what it ran on, for people, and its figures, for programs.

With STREAM_APPLE_BENCH_JSON set, each figure is also appended to the file of that name, as one line of JSON.
"""

import functools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

# Taken out of the environment: a worker that is started refuses variables of this prefix that it does not know.
_FILE = os.environ.pop("STREAM_APPLE_BENCH_JSON", "")
PACKAGES = ("confluent-kafka", "msgpack", "numba", "numpy", "vowpalwabbit", "zstandard")


def header(*packages: str) -> str:
    """One line for the machine and one for the versions of Python and of the packages."""
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    load = os.getloadavg()[0]
    return f"{_processor()}, {os.cpu_count()} cores, load {load:.1f}\nPython {platform.python_version()}, {versions}"


def figure(name: str, values: Sequence[float], unit: str, rounds: int | None = None) -> float:
    """Keep one figure, and return it: the median of `values`.

    name    what was measured, of what: the same in each run of a benchmark with the same arguments
    values  one for each round, in `unit`
    rounds  how many rounds there were, if that is not how many values there are: some figures come from all of them
    """
    median = statistics.median(values)
    if _FILE:
        line = {
            "benchmark": Path(sys.argv[0]).stem,
            "arguments": sys.argv[1:],
            "name": name,
            "value": median,
            "unit": unit,
            "rounds": len(values) if rounds is None else rounds,
            "least": min(values),
            "most": max(values),
            **_circumstances(),
            "load": round(os.getloadavg()[0], 2),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        file = Path(_FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
    return median


def _processor() -> str:
    """Its name, if the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())


@functools.cache
def _circumstances() -> dict[str, object]:
    """What is the same for all figures of a process."""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version()} | {package: version(package) for package in PACKAGES},
        "commit": _commit(),
    }


def _commit() -> str:
    """Of this clone, with a sign if files differ from it; nothing where there is no git, or no clone."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
