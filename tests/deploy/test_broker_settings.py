"""The brokers of compose and of the dev overlay: Kafka itself reads their settings, as its image hands them over."""

import subprocess
from pathlib import Path

import pytest
import yaml
from deploy.manifests import DEPLOY, REPOSITORY, render
from deploy.worker_manifest import only

SECONDS = 120
NOT_PROPERTIES = {"KAFKA_HEAP_OPTS"}
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


@pytest.fixture(params=["compose", "dev"])
def settings(request: pytest.FixtureRequest, kubectl: str) -> dict[str, str]:
    """The environment of the broker's container."""
    found: dict[str, str]
    if request.param == "compose":
        compose = yaml.safe_load((REPOSITORY / "docker" / "compose.yaml").read_text(encoding="utf-8"))
        found = compose["services"]["kafka"]["environment"]
    else:
        deployment = only(render(kubectl, DEPLOY / "overlays" / "dev"), "Deployment", "kafka")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        found = {variable["name"]: variable["value"] for variable in container["env"]}
    return found


def format_storage(jars: Path, directory: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Kafka's first step of a start, for which it reads and checks all properties; KAFKA_NODE_ID is node.id."""
    properties = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in settings.items()
        if name not in NOT_PROPERTIES
    }
    properties["log.dirs"] = str(directory / "data")
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
    return subprocess.run(
        [*command, f"--cluster-id={CLUSTER}", "-c", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.mark.broker
def test_kafka_accepts_the_settings(jars: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    """Listeners, controllers and replication fit together in Kafka's own judgement."""
    done = format_storage(jars, tmp_path, settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "data" / "meta.properties").is_file()


@pytest.mark.broker
@pytest.mark.parametrize("settings", ["dev"], indirect=True)
def test_kafka_refuses_a_mistake(jars: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    """A listener that nobody has, as the name between brokers, is refused: the test above can fail."""
    done = format_storage(jars, tmp_path, settings | {"KAFKA_INTER_BROKER_LISTENER_NAME": "NOBODY"})
    assert done.returncode != 0
    assert "NOBODY" in done.stdout + done.stderr
