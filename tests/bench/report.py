"""What every benchmark prints first: the machine, and the versions that matter."""

import os
import platform
from importlib.metadata import version
from pathlib import Path


def header(*packages: str) -> str:
    """One line for the machine and one for the versions of Python and of the packages."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    load = os.getloadavg()[0]
    return f"{name}, {os.cpu_count()} cores, load {load:.1f}\nPython {platform.python_version()}, {versions}"
