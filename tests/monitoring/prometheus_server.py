"""A real Prometheus and its promtool, from Debian's package or the path: nothing is installed, no service is started.

The package is unpacked into the repository's `.cache`; each server has its own port and directory, and dies with the
test process, however that ends.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple, Self

from kafka_broker import _TIED, UnavailableError, free_ports

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "prometheus"

# The last digits of what the unit tests of rules expect depend on whether a range includes its left end: not in 3.x.
_MAJOR = "2"
_FETCH_SECONDS = 300
_START_SECONDS = 60

# A proxy of the environment has no way to this machine's own ports.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Binaries(NamedTuple):
    """The two programs."""

    prometheus: Path
    promtool: Path


def resolve_binaries(cache: Path = CACHE) -> Binaries:
    """Those on the path, if their version fits, else Debian's; UnavailableError if neither can be had."""
    found = [shutil.which(name) for name in Binaries._fields]
    if all(found) and _version(Path(found[0] or "")).startswith(f"{_MAJOR}."):
        return Binaries(*(Path(path or "") for path in found))
    if not cache.is_dir():
        _unpack_package(cache)
    return Binaries(*(cache / "usr" / "bin" / name for name in Binaries._fields))


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return said.partition("version ")[2]


def _unpack_package(cache: Path) -> None:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise UnavailableError(
                f"expected Prometheus {_MAJOR} on the path, or Debian's package of it; found no {tool} to fetch it"
            )
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="prometheus-") as work:
        _fetch(Path(work))
        (package,) = Path(work).glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", package, Path(work, "root")], check=True)
        try:
            # Atomic: another run sees all files or none, and an aborted run leaves nothing that looks done.
            Path(work, "root").rename(cache)
        except OSError:
            if not cache.is_dir():
                raise


def _fetch(directory: Path) -> None:
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
    """One Prometheus that scrapes one target and evaluates the rules of a file; a context.

    directory  gets configuration, data and log.
    target     host and port of the worker; `job` is the name of its scrape job.
    """

    def __init__(self, binaries: Binaries, directory: Path, rules: Path, target: str, job: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "prometheus.log"
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": [target]}]}],
        }
        # JSON is YAML.
        (directory / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self._command = [
            str(binaries.prometheus),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _TIED, *self._command], stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self._get("/-/ready")
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
            else:
                return self
        self.__exit__()
        tail = self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise RuntimeError(f"no Prometheus answers at {self._url} within {_START_SECONDS} s; its log ends:\n{tail}")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def query(self, expression: str) -> list[Sample]:
        """What `expression` is now; ValueError with Prometheus' own words if it can't be evaluated."""
        try:
            answer = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        except urllib.error.HTTPError as error:
            raise ValueError(f"{expression}: {json.loads(error.read())['error']}") from error
        data = json.loads(answer)["data"]
        if data["resultType"] != "vector":
            raise ValueError(f"expected a vector, found a {data['resultType']}: {expression}")
        return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]

    def label_values(self, selector: str, label: str) -> set[str]:
        """The values of `label` that series of `selector` have or had."""
        start = time.time() - 3600
        asked = urllib.parse.urlencode({"match[]": selector, "start": start})
        return set(json.loads(self._get(f"/api/v1/label/{label}/values?{asked}"))["data"])

    def rules(self) -> list[dict[str, Any]]:
        """All rules as it has loaded them, with health and state."""
        groups = json.loads(self._get("/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, path: str) -> bytes:
        with _opener.open(self._url + path, timeout=30) as answer:
            body: bytes = answer.read()
        return body
