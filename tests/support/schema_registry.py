"""A real schema registry as a child process: Apicurio's, which speaks Confluent's protocol; Java and Maven run it."""

import os
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path

from support.child_process import start_child
from support.ports import free_ports
from support.required import UnavailableError, fetch_once

VERSION = "3.0.9"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "apicurio" / VERSION

_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_RESOLVE_SECONDS, _START_SECONDS = 300, 120


def resolve_registry(cache: Path = CACHE) -> Path:
    """The directory of the registry's jars, filled by Maven if need be; UnavailableError if that can't be done."""
    if shutil.which("java") is None:
        raise UnavailableError("a schema registry needs Java 17 or newer; there is no `java` on the path")
    return fetch_once(cache, _fetch)


def _fetch(directory: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(f"the schema registry is not in {CACHE}, and there is no `mvn` on the path to fetch it")
    archive, jars = directory / "registry.tar.gz", directory / "registry"
    # This version of the plugin alone copies an artifact whose parent was not published with it.
    command = [maven, "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"]
    command += [f"-Dartifact={_ARTIFACT}", "-Dtransitive=false", f"-Ddest={archive}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_SECONDS)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Maven did not resolve {_ARTIFACT} within {_RESOLVE_SECONDS} s") from None
    if done.returncode:
        raise UnavailableError(f"Maven can't resolve {_ARTIFACT}: {(done.stdout + done.stderr)[-2000:]}")
    with tarfile.open(archive) as files:
        files.extractall(jars, filter="data")
    return jars


class Registry:
    """One registry process. Its address and what is registered stay the same from one start to the next.

    directory  gets its database and its output
    """

    def __init__(self, directory: Path, jars: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (self._port,) = free_ports(1)
        self._directory, self._jars = directory, jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for `registry.url`."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it answers; RuntimeError with the end of its log if it does not."""
        log = self._directory / "registry.log"
        environment = {
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{self._directory}/registry;WRITE_DELAY=0",
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._port),
        }
        jar = next(self._jars.glob("*-runner.jar"))
        self._process = start_child(
            ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar], log, environment
        )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.running:
            try:
                with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                    answer.read()
            except OSError:
                time.sleep(0.2)
            else:
                return
        self.kill()
        raise RuntimeError(f"no registry answers at {self.url}; its log ends:\n{log.read_text()[-4000:]}")

    def kill(self) -> None:
        """Send SIGKILL, if it runs."""
        if self._process is not None and self.running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
