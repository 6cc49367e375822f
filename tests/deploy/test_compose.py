"""compose.yaml: what depends on what, where its files are, and that it says what the code says. It is not run."""

import copy
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from deploy.manifests import REPOSITORY
from deploy.prometheus_rule import RULES
from deploy.worker_manifest import bytes_of, memory_needed
from prometheus_client import CollectorRegistry
from support.kafka.broker import VERSION as KAFKA_VERSION

from stream_apple import cli
from stream_apple.adapters.kafka.retry import SHORTENED_DEADLINE_S
from stream_apple.adapters.kafka.transactional_producer import _CLOSE_S
from stream_apple.config import Config, load
from stream_apple.http.application import routes
from stream_apple.monitoring.health import Health
from stream_apple.stream.loop.loop import SAVING_S

DOCKER = REPOSITORY / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
CONFIG = load(DOCKER / "stream_apple.toml", {})
CHALLENGER = load(DOCKER / "challenger.toml", {})
LOOP = ("serve", "join", "site")
COMPARE = ("challenger-topics", "challenger", "compare")
OURS = ("topics", "worker", "traffic", *LOOP, *COMPARE)

Compose = dict[str, Any]


def _yaml(name: str) -> Any:
    return yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))


@pytest.fixture
def compose() -> Compose:
    """The file, with its anchors resolved."""
    found: Compose = _yaml("compose.yaml")
    return found


def mounts(service: Mapping[str, Any]) -> dict[str, str]:
    """Path in the container -> what is mounted there: a path beside compose.yaml, or a volume's name."""
    parts = [volume.split(":") for volume in service.get("volumes", [])]
    return {part[1]: part[0] for part in parts}


def check_order(compose: Compose) -> None:
    """Everything starts after what it needs is healthy or done, and nothing waits in a circle."""
    services = compose["services"]
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[needed], f"{name} waits for the health of {needed}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert services[needed]["restart"] == "no", f"{name} waits for the end of {needed}"
    started: set[str] = set()
    while len(started) < len(services):
        ready = {name for name, service in services.items() if set(service.get("depends_on", {})) <= started} - started
        assert ready, f"{set(services) - started} wait for one another"
        started |= ready
    assert services["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in ("worker", "traffic"):
        assert services[name]["depends_on"]["topics"] == {"condition": "service_completed_successfully"}
    assert services["prometheus"]["depends_on"]["worker"] == {"condition": "service_healthy"}
    assert services["grafana"]["depends_on"]["prometheus"] == {"condition": "service_healthy"}
    endless = set(services) - {"topics", "challenger-topics"}
    assert {name for name, service in services.items() if service["restart"] == "unless-stopped"} == endless


def check_images(compose: Compose) -> None:
    """Ours has the version of the package, and one service builds it from the Dockerfile before others need it.

    The others have tags of one version.
    """
    version = re.search(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for name, service in compose["services"].items():
        if name in OURS:
            assert service["image"] == f"stream-apple:{version.group(1)}"
            # Else it would be looked for in a registry, where a stranger may have put something of that name.
            assert service["pull_policy"] == "never"
        else:
            assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", service["image"]), service["image"]
    builders = [name for name, service in compose["services"].items() if "build" in service]
    assert len(builders) == 1
    builder = builders[0]
    build = compose["services"][builder]["build"]
    assert (DOCKER / build["context"]).resolve() == REPOSITORY
    assert (REPOSITORY / build["dockerfile"]).is_file()
    # Whoever starts one of the others starts it, too, and so builds what they run.
    assert all(builder in compose["services"][name]["depends_on"] for name in set(OURS) - {builder})
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"


def check_mounts(compose: Compose) -> None:
    """What is mounted is there: files and folders of the repository, read-only, or volumes that are declared."""
    for service in compose["services"].values():
        for target, source in mounts(service).items():
            if source.startswith("."):
                # What is not there, Docker makes: a folder.
                place = DOCKER / source
                assert place.is_file() if Path(target).suffix else place.is_dir(), source
            else:
                assert source in compose["volumes"]
        for volume in service.get("volumes", []):
            assert volume.startswith(tuple(compose["volumes"])) or volume.endswith(":ro"), volume


def check_commands(compose: Compose) -> None:
    """Each command exists with these options, and reads the configuration where it is mounted."""
    for name in OURS:
        service = compose["services"][name]
        verb, *options = service["command"]
        command = cli.main.get_command(click.Context(cli.main), verb)
        assert command is not None, f"no command {verb}"
        command.make_context(verb, list(options))
        names = ("--champion", "--challenger") if verb == "compare" else ("--config",)
        files = [(DOCKER / mounts(service)[options[options.index(each) + 1]]).name for each in names]
        theirs = ["challenger.toml"] if name in COMPARE else ["stream_apple.toml"]
        assert files == (["stream_apple.toml", *theirs] if verb == "compare" else theirs), name


def check_kafka(compose: Compose) -> None:
    """The broker's listeners fit together, the worker's address is one of them, and one broker is enough."""
    kafka = compose["services"]["kafka"]
    settings: dict[str, str] = kafka["environment"]
    listeners = dict(one.split("://:") for one in settings["KAFKA_LISTENERS"].split(","))
    advertised = dict(one.split("://") for one in settings["KAFKA_ADVERTISED_LISTENERS"].split(","))
    protocols = dict(one.split(":") for one in settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert set(listeners) == set(protocols)
    assert set(advertised) == set(listeners) - {settings["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    for name, address in advertised.items():
        assert address.rpartition(":")[2] == listeners[name]
    assert CONFIG.kafka["bootstrap.servers"] == advertised[settings["KAFKA_INTER_BROKER_LISTENER_NAME"]]
    voter = settings["KAFKA_CONTROLLER_QUORUM_VOTERS"].rpartition(":")[2]
    assert voter == listeners[settings["KAFKA_CONTROLLER_LISTENER_NAMES"]]
    (published,) = kafka["ports"]
    host, port, inside = published.split(":")
    assert (host, f"localhost:{port}", inside) == ("127.0.0.1", advertised["HOST"], listeners["HOST"])
    for name, value in settings.items():
        if name.endswith(("_REPLICATION_FACTOR", "_MIN_ISR")):
            assert value == "1"
    assert kafka["healthcheck"]["test"][-1].rpartition(":")[2] in listeners.values()
    assert all(isinstance(value, str) for value in settings.values())


def check_worker(compose: Compose) -> None:
    """Ports, health, memory, time to drain, and a read-only root with the image's one place to write."""
    worker = compose["services"]["worker"]
    port = CONFIG.http.port
    assert CONFIG.http.ports[0] == port  # a container has its ports to itself: the first one is free
    assert worker["ports"] == [f"127.0.0.1:{port}:{port}"]
    url = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", " ".join(worker["healthcheck"]["test"]))
    assert url is not None
    assert int(url.group(1)) == port
    assert url.group(2) in {route.path for route in routes(Health(), CollectorRegistry())}
    assert int(worker["stop_grace_period"].removesuffix("s")) >= SHORTENED_DEADLINE_S + SAVING_S + 2 * _CLOSE_S + 10
    made = compose["services"]["topics"]["command"]
    partitions = int(made[made.index("--partitions") + 1])
    assert bytes_of(worker["mem_limit"].upper() + "i") >= 1.1 * memory_needed(CONFIG.learner.bits or 0, partitions)
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    cache = re.search(r"NUMBA_CACHE_DIR=(/var\S+)", DOCKERFILE)
    assert user is not None
    assert cache is not None
    for name in OURS:
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        (tmpfs,) = service["tmpfs"]
        assert tmpfs.startswith(f"{cache.group(1)}:uid={user.group(1)},gid={user.group(2)},")


def check_monitoring(compose: Compose) -> None:
    """Prometheus scrapes the worker and reads the rules; Grafana finds Prometheus, and the dashboard it opens on."""
    services = compose["services"]
    prometheus, grafana = services["prometheus"], services["grafana"]
    settings = _yaml(mounts(prometheus)["/etc/prometheus/prometheus.yml"])
    workers, *others = settings["scrape_configs"]
    assert workers["static_configs"] == [{"targets": [f"worker:{CONFIG.http.port}"]}]
    comparing = services["compare"]["command"]
    ports = {
        "serve": CONFIG.serve.port,
        "join": CONFIG.http.port,
        "challenger": CHALLENGER.http.port,
        "compare": int(comparing[comparing.index("--serve") + 1]),
    }
    # By their names, which there are only with the profile: else they would be missed where nobody asked for them.
    found = {}
    for job in others:
        (asked,) = job["dns_sd_configs"]
        (name,) = asked["names"]
        found[name] = asked["port"]
        assert asked["type"] == "A"
        assert job["relabel_configs"] == [{"source_labels": ["__meta_dns_name"], "target_label": "instance"}]
        assert services[name]["profiles"]
        # What tells groups and commands apart, here as on Kubernetes.
        assert job["job_name"] == (CHALLENGER.worker.group if name == "challenger" else f"stream-apple-{name}")
    assert found == ports
    assert workers["job_name"] == CONFIG.worker.group
    (rules,) = settings["rule_files"]
    folder, _, pattern = rules.rpartition("/")
    assert sorted((DOCKER / mounts(prometheus)[folder]).resolve().glob(pattern)) == RULES
    provisioning = "/etc/grafana/provisioning"
    (source,) = _yaml(mounts(grafana)[f"{provisioning}/datasources/stream-apple.yaml"])["datasources"]
    (published,) = prometheus["ports"]
    assert source["url"] == f"http://prometheus:{published.rpartition(':')[2]}"
    (provider,) = _yaml(mounts(grafana)[f"{provisioning}/dashboards/stream-apple.yaml"])["providers"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.rpartition("/")[0] == provider["options"]["path"]
    assert (DOCKER / mounts(grafana)[home]).samefile(REPOSITORY / "deploy" / "monitoring" / "dashboard.json")


def check_loop(compose: Compose) -> None:
    """The loop is started when it is asked for: a site asks the server, and what it writes is joined."""
    services = compose["services"]
    assert {name for name, service in services.items() if service.get("profiles") == ["loop"]} == set(LOOP)
    assert CONFIG.joining  # or `topics` would not create what it needs
    assert CONFIG.join.default_label == 0  # the label of no click, as `generate` has it
    site, serve, join = (services[name] for name in ("site", "serve", "join"))
    command = site["command"]
    assert command[command.index("--ask") + 1] == f"http://serve:{CONFIG.serve.port}"
    assert serve["ports"] == [f"127.0.0.1:{CONFIG.serve.port}:{CONFIG.serve.port}"]
    for name in ("serve", "join"):
        assert site["depends_on"][name] == {"condition": "service_healthy"}
    assert f"http://127.0.0.1:{CONFIG.serve.port}/v2/health/live'" in serve["healthcheck"]["test"][-1]
    assert f"http://127.0.0.1:{CONFIG.http.port}/readyz'" in join["healthcheck"]["test"][-1]
    assert serve["mem_limit"] == services["worker"]["mem_limit"]  # it has a model of each partition, too
    assert join["stop_grace_period"] == services["worker"]["stop_grace_period"]


def check_comparison(compose: Compose) -> None:
    """The challenger is a group of its own on the same examples, and what compares it knows both."""
    services = compose["services"]
    assert {name for name, service in services.items() if service.get("profiles") == ["compare"]} == set(COMPARE)
    assert {name for name, service in services.items() if service.get("profiles")} == {*LOOP, *COMPARE}
    assert CHALLENGER.kafka == CONFIG.kafka
    assert CHALLENGER.topics.examples == CONFIG.topics.examples
    assert not {*CHALLENGER.topics.names(merging=False)[1:]} & {*CONFIG.topics.names(merging=False)}
    assert CHALLENGER.worker.group != CONFIG.worker.group
    assert CHALLENGER.learner.loss == CONFIG.learner.loss  # or nothing could be compared
    assert CHALLENGER.model_settings() != CONFIG.model_settings()
    challenger, worker, comparing = (services[name] for name in ("challenger", "worker", "compare"))
    for name in ("healthcheck", "stop_grace_period", "mem_limit"):
        assert challenger[name] == worker[name]
    command = comparing["command"]
    port = command[command.index("--serve") + 1]
    assert comparing["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"http://127.0.0.1:{port}/livez'" in comparing["healthcheck"]["test"][-1]


def check_exposure(compose: Compose) -> None:
    """What is published is for this machine alone."""
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


CHECKS = [
    check_order,
    check_images,
    check_mounts,
    check_commands,
    check_kafka,
    check_worker,
    check_monitoring,
    check_loop,
    check_comparison,
    check_exposure,
]


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__.removeprefix("check_") for check in CHECKS])
def test_compose_agrees_with_the_code(compose: Compose, check: Callable[[Compose], None]) -> None:
    """The checks above say it one by one."""
    check(compose)


def test_a_second_build_is_found(compose: Compose) -> None:
    """Three services with a `build` each would build the same image three times over."""
    compose["services"]["worker"]["build"] = compose["services"]["topics"]["build"]
    with pytest.raises(AssertionError):
        check_images(compose)


def test_compose_keeps_to_its_specification(compose: Compose, specification: dict[str, Any]) -> None:
    """Every key is one that the Compose specification knows, with a value of the right type; a mistyped one is not."""
    validator = jsonschema.validators.validator_for(specification)(specification)
    validator.validate(compose)
    for path in (("worker", "healtcheck"), ("kafka", "healthcheck", "retrys"), ("traffic", "readonly")):
        wrong = copy.deepcopy(compose)
        place = wrong["services"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = {}
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(wrong)


def test_prometheus_reads_its_configuration(promtool: Path, tmp_path: Path) -> None:
    """Promtool finds nothing wrong with it, and reads the rules that are mounted beside it."""
    text = (DOCKER / "prometheus.yaml").read_text(encoding="utf-8")
    file = tmp_path / "prometheus.yaml"
    file.write_text(text.replace("/etc/prometheus/rules", str(RULES[0].parent)))
    command = [str(promtool), "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rule files found" in done.stdout
    # A pattern that fits no file is no mistake for promtool.
    file.write_text(text)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "rule files found" not in done.stdout


def test_epochs_go_by_while_one_watches() -> None:
    """The configuration loads, epochs are short, and the loss is the one for clicks."""
    config: Config = CONFIG
    assert config.epochs.length <= 60_000
    assert config.learner.loss == "logistic"


def test_the_address_in_the_first_line_is_grafana_s(compose: Compose) -> None:
    """The command at the top of the file leads to the page that it names."""
    first = (DOCKER / "compose.yaml").read_text(encoding="utf-8").splitlines()[0]
    (published,) = compose["services"]["grafana"]["ports"]
    assert f"http://localhost:{published.split(':')[1]}" in first
    path = re.search(r"-f (\S+) up", first)
    assert path is not None
    assert Path(REPOSITORY, path.group(1)).is_file()


MISTAKES: list[tuple[Callable[[Compose], None], tuple[str, ...], object]] = [
    (check_order, ("kafka", "healthcheck"), None),
    (check_order, ("topics", "restart"), "unless-stopped"),
    (check_order, ("topics", "depends_on"), {"worker": {"condition": "service_healthy"}}),
    (check_order, ("worker", "depends_on"), {"kafka": {"condition": "service_healthy"}}),
    (check_images, ("kafka", "image"), "apache/kafka:latest"),
    (check_images, ("kafka", "image"), "apache/kafka:3.9.0"),
    (check_images, ("worker", "image"), "stream-apple:0.0.9"),
    (check_images, ("topics", "build"), None),
    (check_images, ("topics", "build", "dockerfile"), "Dockerfile"),
    (check_images, ("traffic", "pull_policy"), "missing"),
    (check_images, ("worker", "depends_on"), {"kafka": {"condition": "service_healthy"}}),
    (check_mounts, ("grafana", "volumes"), ["../deploy/monitoring/dashbord.json:/x:ro"]),
    (check_mounts, ("grafana", "volumes"), ["./prometheus.yaml:/x"]),
    (check_mounts, ("kafka", "volumes"), ["kafk:/var/lib/kafka/data"]),
    (check_commands, ("traffic", "command"), ["generate", "--rat", "5"]),
    (check_commands, ("worker", "command"), ["run", "--config", "/etc/stream-apple.toml"]),
    (check_kafka, ("kafka", "environment", "KAFKA_LISTENERS"), "HOST://:9092,NETWORK://:19093,CONTROLLER://:9093"),
    (check_kafka, ("kafka", "environment", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"), "3"),
    (check_kafka, ("kafka", "ports"), ["127.0.0.1:9093:9092"]),
    (check_worker, ("worker", "ports"), ["127.0.0.1:9401:9401"]),
    (check_worker, ("worker", "healthcheck", "test"), ["CMD", "x", "http://127.0.0.1:9400/healthz"]),
    (check_worker, ("worker", "stop_grace_period"), "10s"),
    (check_worker, ("worker", "mem_limit"), "400m"),
    (check_worker, ("worker", "tmpfs"), ["/tmp:uid=65532,gid=65532,size=64m"]),
    (check_worker, ("traffic", "read_only"), False),
    (check_mounts, ("prometheus", "volumes"), ["../deploy/monitoring/rule:/etc/prometheus/rules:ro"]),
    (
        check_monitoring,
        ("prometheus", "volumes"),
        ["./prometheus.yaml:/etc/prometheus/prometheus.yml:ro", "../deploy/monitoring:/etc/prometheus/rules:ro"],
    ),
    (check_monitoring, ("prometheus", "ports"), ["127.0.0.1:9090:9091"]),
    (check_monitoring, ("grafana", "environment", "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"), "/x/y.json"),
    (check_loop, ("site", "profiles"), None),
    (check_loop, ("site", "command"), ["generate", "--ask", "http://serve:8081"]),
    (check_loop, ("serve", "ports"), ["127.0.0.1:8080:80"]),
    (check_loop, ("site", "depends_on", "join"), {"condition": "service_started"}),
    (check_loop, ("serve", "healthcheck", "test"), ["CMD", "x", "http://127.0.0.1:8080/readyz"]),
    (check_loop, ("serve", "mem_limit"), "100m"),
    (check_loop, ("compare", "profiles"), ["loop"]),
    (check_comparison, ("challenger", "profiles"), None),
    (check_comparison, ("challenger", "mem_limit"), "100m"),
    (check_comparison, ("compare", "ports"), ["127.0.0.1:9402:9402"]),
    (check_monitoring, ("compare", "command"), ["compare", "--follow", "--serve", "9402"]),
    (check_monitoring, ("join", "profiles"), None),
    (check_commands, ("challenger", "command"), ["run", "--config", "/etc/stream-apple/stream_apple.toml"]),
    (check_exposure, ("grafana", "ports"), ["3000:3000"]),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_in_compose_is_found(compose: Compose, number: int) -> None:
    """Each check fails when what it is about is changed; None takes it away."""
    check, path, value = MISTAKES[number]
    wrong = copy.deepcopy(compose)
    place = wrong["services"]
    for step in path[:-1]:
        place = place[step]
    assert path[-1] in place
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises((AssertionError, KeyError, click.UsageError)):
        check(wrong)
