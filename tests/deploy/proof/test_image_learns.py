"""The image is built from the Dockerfile as it is, and does compose's work on a real broker, as whom it says it is."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from deploy.manifests import REPOSITORY
from deploy.proof.image import Image
from deploy.proof.record import IMAGE
from support.kafka.broker import Broker
from support.local_http import fetch, metric
from support.ports import free_ports
from support.topics import read_all
from support.waiting import wait_until

SUBJECT = IMAGE
EXAMPLES = 4000
PARTITIONS = 4
USER = 65532
SECONDS = 120

pytestmark = [pytest.mark.timeout(3600), pytest.mark.broker]


class Stage(NamedTuple):
    """The image, a broker, and the commands and the configuration of compose with this broker's address."""

    image: Image
    broker: Broker
    services: dict[str, Any]
    mounted: Path
    environment: dict[str, str]
    port: int

    def run(self, *arguments: str) -> str:
        """What the image says, having ended well."""
        done = self.image.run(arguments, self.mounted, self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def stage(image: Image, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Topics are made and some examples sent by the image itself, with compose's own commands."""
    docker = REPOSITORY / "docker"
    directory = tmp_path_factory.mktemp("stage")
    mounted = directory / "mounted"
    mounted.mkdir()
    (mounted / "stream_apple.toml").write_text((docker / "stream_apple.toml").read_text(encoding="utf-8"))
    (port,) = free_ports(1)
    broker = Broker(directory / "kafka", jars)
    broker.start()
    try:
        environment = {
            "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap,
            "STREAM_APPLE_HTTP__PORT": str(port),
        }
        services = yaml.safe_load((docker / "compose.yaml").read_text(encoding="utf-8"))["services"]
        found = Stage(image, broker, services, mounted, environment, port)
        found.run(*services["topics"]["command"])
        traffic = [
            word for word in services["traffic"]["command"] if word not in {"--rate", "2000", "--broken", "0.002"}
        ]
        found.run(*traffic, "--rate", "100000", "--limit", str(EXAMPLES))
        yield found
    finally:
        broker.kill()


class TestImage:
    """What the image says of itself, and what is in it."""

    def test_it_says_what_the_dockerfile_says(self, image: Image) -> None:
        """User, entry point, port and signal are in the image's configuration."""
        configuration = image.configuration
        assert configuration["User"] == f"{USER}:{USER}"
        assert configuration["Entrypoint"] == ["/usr/local/bin/stream-apple-entrypoint"]
        assert configuration["Cmd"] == ["run"]
        assert set(configuration["ExposedPorts"]) in ({"9400"}, {"9400/tcp"})
        assert configuration["StopSignal"] == "SIGTERM"
        version = configuration["Labels"]["org.opencontainers.image.version"]
        assert f'version = "{version}"' in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")

    def test_what_builds_is_not_shipped(self, image: Image) -> None:
        """No sources, no pip, no wheels: the environment, its kernels, and one directory that its user may write to."""
        root = image.root
        assert not (root / "src").exists()
        assert not (root / "wheels").exists()
        assert not list((root / "opt" / "stream-apple" / "bin").glob("pip*"))
        # Folders that are empty are where something of this machine was mounted while it was built.
        filled = {path.name for path in (root / "opt").iterdir() if any(path.iterdir())}
        assert filled == {"kernels", "stream-apple"}
        cache = (root / "var" / "cache" / "stream-apple").stat()
        assert (cache.st_uid, cache.st_gid, cache.st_mode & 0o777) == (USER, USER, 0o700)

    def test_it_has_kernels_of_every_type(self, image: Image) -> None:
        """One directory with compiled code for each type that the Dockerfile names and this processor can run."""
        dockerfile = (REPOSITORY / "docker" / "Dockerfile").read_text(encoding="utf-8")
        (targets,) = re.findall(r'^ARG TARGETS="(.*)"$', dockerfile, re.MULTILINE)
        kernels = image.root / "opt" / "kernels"
        left_out = set() if " avx512f " in Path("/proc/cpuinfo").read_text(encoding="utf-8") else {"x86-64-v4"}
        assert {path.name for path in kernels.iterdir()} == set(targets.split()) - left_out
        assert all(list(path.rglob("*.nbc")) for path in kernels.iterdir())


def test_the_image_learns(stage: Stage, tmp_path: Path) -> None:
    """Without privileges it becomes ready, learns every example, publishes as many predictions, and stops when told.

    Nothing is compiled meanwhile; afterwards, its own `verify` finds every prediction to be what it should be.
    """
    log = tmp_path / "worker.log"
    command = stage.services["worker"]["command"]
    process = stage.image.start([*command, "--log-format", "json"], stage.mounted, stage.environment, log)

    def seen() -> str:
        return log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def learned() -> bool:
        assert process.poll() is None, seen()
        try:
            ready = fetch(stage.port, "/readyz").status == 200
            return ready and sum(metric(stage.port, "stream_apple_examples_total", outcome="learned")) >= EXAMPLES
        except OSError:
            return False

    try:
        wait_until(learned, seen, SECONDS, pause_s=0.1)
        check_privileges(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, seen()
    finally:
        process.kill()
        process.wait()
    said = log.read_text(encoding="utf-8")
    assert "no kernels for" not in said
    events = [json.loads(line)["event"] for line in said.splitlines() if line.startswith("{")]
    assert events.count("snapshot_written") >= PARTITIONS
    assert len(read_all(stage.broker.bootstrap, "predictions", PARTITIONS)) == EXAMPLES
    stage.run("verify", "--config", command[command.index("--config") + 1])


def check_privileges(pid: int) -> None:
    """The process has the user, no capability, and no way to get any; its root can't be written to."""
    place = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(USER)}
    assert status["Groups"].split() == []
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"].strip() == "1"
    mounts = [line.split() for line in (place / "mountinfo").read_text().splitlines()]
    options = {mount[4]: mount[5].split(",") for mount in mounts}
    assert "ro" in options["/"]
    assert "ro" in options["/etc/stream-apple"]
    assert "rw" in options["/var/cache/stream-apple"]


def test_a_file_system_without_a_place_to_write_is_refused(stage: Stage) -> None:
    """That the root is read-only is no matter of belief: nothing can be made there, and the one place can be."""
    script = "import pathlib\nfor p in ('/x', '/opt/x', '/etc/x', '/var/cache/stream-apple/x'):\n"
    script += " try: pathlib.Path(p).touch(); print(p, 'made')\n except OSError as e: print(p, e.errno)\n"
    entry = stage.image.configuration["Entrypoint"]
    stage.image.configuration["Entrypoint"] = ["/opt/stream-apple/bin/python", "-c", script]
    try:
        said = stage.run().split("\n")
    finally:
        stage.image.configuration["Entrypoint"] = entry
    assert said[:4] == ["/x 30", "/opt/x 30", "/etc/x 30", "/var/cache/stream-apple/x made"]
