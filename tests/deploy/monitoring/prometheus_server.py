"""A real Prometheus and its promtool, from Debian's package or the path: nothing is installed, no service is started.

The package is unpacked into the repository's `.cache`; each server has its own port and directory, and dies with the
test process, however that ends.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Self

from support.child_process import start_child
from support.local_http import fetch
from support.ports import free_ports
from support.required import UnavailableError, fetch_once
from support.waiting import wait_until

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "prometheus"

# The last digits of what the unit tests of rules expect depend on whether a range includes its left end: not in 3.x.
_MAJOR = "2"
_FETCH_SECONDS = 300
_START_SECONDS = 60


class Binaries(NamedTuple):
    """The two programs."""

    prometheus: Path
    promtool: Path


def resolve_binaries(cache: Path = CACHE) -> Binaries:
    """Those on the path, if their version fits, else Debian's; UnavailableError if neither can be had."""
    found = [shutil.which(name) for name in Binaries._fields]
    if all(found) and _version(Path(found[0] or "")).startswith(f"{_MAJOR}."):
        return Binaries(*(Path(path or "") for path in found))
    fetch_once(cache, _unpack_package)
    return Binaries(*(cache / "usr" / "bin" / name for name in Binaries._fields))


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return said.partition("version ")[2]


def _unpack_package(directory: Path) -> Path:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise UnavailableError(
                f"expected Prometheus {_MAJOR} on the path, or Debian's package of it; found no {tool} to fetch it"
            )
    _download(directory)
    (package,) = directory.glob("prometheus_*.deb")
    root = directory / "root"
    subprocess.run(["dpkg", "-x", package, root], check=True)
    return root


def _download(directory: Path) -> None:
    download = ["apt-get", "download", "prometheus"]
    # Machines that were made from an image often have no lists of packages; only root may fetch them.
    steps = [download, ["apt-get", "update"], download] if os.geteuid() == 0 else [download]
    done = None
    for step in steps:
        try:
            done = subprocess.run(
                step, cwd=directory, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"`{' '.join(step)}` did not end within {_FETCH_SECONDS} s") from None
        if done.returncode == 0 and step == download:
            return
    raise UnavailableError(f"Debian's package prometheus can't be had: {done.stderr[-2000:] if done else ''}")


class Sample(NamedTuple):
    """One element of the answer to an instant query."""

    labels: dict[str, str]
    value: float


class Server:
    """One Prometheus that scrapes one target and evaluates the rules of some files; a context.

    directory  gets configuration, data and log.
    target     host and port of the worker; `job` is the name of its scrape job.
    """

    def __init__(self, binaries: Binaries, directory: Path, rules: Sequence[Path], target: str, job: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "prometheus.log"
        (self._port,) = free_ports(1)
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(file) for file in rules],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": [target]}]}],
        }
        # JSON is YAML.
        (directory / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self._command = [
            str(binaries.prometheus),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = process = start_child(self._command, self._log)
        try:
            wait_until(lambda: process.poll() is not None or self._ready(), "an answer", _START_SECONDS)
            assert process.poll() is None, "it has ended"
        except BaseException as error:
            self.__exit__()
            tail = self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
            error.add_note(f"Prometheus, to be at port {self._port}; its log ends:\n{tail}")
            raise
        return self

    def _ready(self) -> bool:
        try:
            return fetch(self._port, "/-/ready").status == HTTPStatus.OK
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def query(self, expression: str) -> list[Sample]:
        """What `expression` is now; ValueError with Prometheus' own words if it can't be evaluated."""
        answer = fetch(self._port, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"{expression}: {answer.json()['error']}")
        data = answer.json()["data"]
        if data["resultType"] != "vector":
            raise ValueError(f"expected a vector, found a {data['resultType']}: {expression}")
        return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]

    def label_values(self, selector: str, label: str) -> set[str]:
        """The values of `label` that series of `selector` have or had."""
        start = time.time() - 3600
        asked = urllib.parse.urlencode({"match[]": selector, "start": start})
        return set(self._data(f"/api/v1/label/{label}/values?{asked}"))

    def rules(self) -> list[dict[str, Any]]:
        """All rules as it has loaded them, with health and state."""
        groups = self._data("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _data(self, path: str) -> Any:
        answer = fetch(self._port, path)
        assert answer.status == HTTPStatus.OK, answer
        return answer.json()["data"]
