"""The manifests say what the code says: settings, ports, paths, topics, permissions, budgets of time and memory."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from deploy.agreement import (
    CHECKS,
    Check,
    check_configuration,
    check_hardening,
    check_images,
    check_joining,
    check_lag,
    check_memory,
    check_permissions,
    check_ports,
    check_scale,
    check_secrets,
    check_selectors,
    check_serving,
    check_time,
    check_topics,
)
from deploy.manifests import COMPONENTS, DEPLOY, combine, render
from deploy.manifests import copy as copy_of_deploy
from deploy.operator_schemas import Manifest
from deploy.worker_manifest import Pod, joining_memory, memory_needed

from stream_apple.errors import ConfigurationError

PLACES = {
    "base": "base",
    "dev": "overlays/dev",
    "production": "overlays/production",
    "clicks": "overlays/two-groups/clicks",
    "clicks-next": "overlays/two-groups/clicks-next",
}


@pytest.fixture(scope="module")
def rendered(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    """What can be applied: name -> manifests."""
    found = {name: render(kubectl, DEPLOY / path) for name, path in PLACES.items()}
    tree = copy_of_deploy(tmp_path_factory.mktemp("tree"))
    # The base is for a plain cluster; its secrets and its scaling come with a secured one.
    found["tls-sasl"] = render(kubectl, combine(tree, ["tls-sasl"]))
    return found


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__.removeprefix("check_") for check in CHECKS])
@pytest.mark.parametrize("place", [*PLACES, "tls-sasl"])
def test_manifests_agree_with_the_code(
    rendered: dict[str, list[Manifest]], tmp_path: Path, place: str, check: Check
) -> None:
    """What is rendered is what the code needs; the checks above say it one by one."""
    check(Pod.of(rendered[place]), tmp_path)


def test_production_has_every_component(rendered: dict[str, list[Manifest]]) -> None:
    """The checks above are not passed by leaving things out: production has a resource of each kind they look at."""
    kinds = {one["kind"] for one in rendered["production"]}
    assert kinds >= {"KafkaTopic", "KafkaUser", "ScaledObject", "TriggerAuthentication", "NetworkPolicy", "PodMonitor"}
    listed = yaml.safe_load((DEPLOY / "overlays/production/kustomization.yaml").read_text(encoding="utf-8"))
    assert sorted(Path(one).name for one in listed["components"]) == COMPONENTS


def test_the_dashboard_is_found_by_its_label(rendered: dict[str, list[Manifest]]) -> None:
    """Grafana's sidecar looks for this label; the content is the dashboard that compose shows too."""
    (found,) = [
        one for one in rendered["production"] if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]
    (content,) = found["data"].values()
    assert content == (DEPLOY / "monitoring" / "dashboard.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["base/stateful-set.yaml", "overlays/production/stateful-set.yaml"])
def test_the_comment_s_calculation_is_right(file: str) -> None:
    """The sum beside the memory is what the model of memory gives for the numbers beside it."""
    text = (DEPLOY / file).read_text(encoding="utf-8").replace("\n            #", "")
    found = re.search(r"2\^(\d+) slots \* 45\.3 bytes \* \((\d+) partitions \+ 1 for a snapshot\) = (\d+) MB", text)
    assert found is not None
    bits, partitions, megabytes = map(int, found.groups())
    assert round(memory_needed(bits, partitions) / 1e6) == megabytes


@pytest.mark.parametrize("file", ["components/join/stateful-set.yaml", "overlays/production/stateful-set-join.yaml"])
def test_the_comment_s_calculation_for_joiners_is_right(file: str) -> None:
    """The sum beside their memory is what the model of memory gives, too."""
    text = (DEPLOY / file).read_text(encoding="utf-8")
    found = re.search(r"(\d+) partitions \* \(16 MiB of records \+ (\S+) outcomes \* 250 bytes\) = (\d+) MB", text)
    assert found is not None
    partitions, outcomes, megabytes = (int(group.replace(",", "")) for group in found.groups())
    assert round(joining_memory(outcomes, partitions) / 1e6) == megabytes


def _named(place: Any, step: str) -> Any:
    """The key of a mapping, or the index of the element of a list that has this name."""
    if isinstance(place, list):
        return [element["name"] for element in place].index(step)
    return step


def _set(*path: str, to: object) -> Callable[[Pod], None]:
    """A change of the worker's container; elements of lists go by their names."""

    def change(pod: Pod) -> None:
        place: Any = pod.worker
        for step in path[:-1]:
            place = place[_named(place, step)]
        assert path[-1] in place
        place[path[-1]] = to

    return change


def _argument(right: str, wrong: str) -> Callable[[Pod], None]:
    """Another argument of the worker."""

    def change(pod: Pod) -> None:
        arguments = pod.worker["args"]
        arguments[arguments.index(right)] = wrong

    return change


def _replace(kind: str, right: str, wrong: str) -> Callable[[Pod], None]:
    """A change of the text of the resources of a kind that have it."""

    def change(pod: Pod) -> None:
        texts = {number: yaml.safe_dump(one) for number, one in enumerate(pod.manifests) if one["kind"] == kind}
        changed = {number: text.replace(right, wrong) for number, text in texts.items() if right in text}
        assert changed
        for number, text in changed.items():
            pod.manifests[number] = yaml.safe_load(text)

    return change


MISTAKES: list[tuple[Check, Callable[[Pod], None]]] = [
    (check_configuration, _argument("run", "runn")),
    (check_configuration, _argument("--log-format", "--log-fromat")),
    (
        check_configuration,
        _set("env", "STREAM_APPLE_KAFKA__SECURITY_PROTOCOL", "name", to="STREAM_APPLE_KAFKA__SECURITY_PROTOCAL"),
    ),
    (check_configuration, _set("env", "STREAM_APPLE_WORKER__ID", "name", to="STREAM_APPLE_WORKER__NAME")),
    (check_configuration, _set("volumeMounts", "config", "mountPath", to="/etc/stream_apple")),
    (check_configuration, _replace("ConfigMap", "bits = 22", "bit = 22")),
    (check_secrets, _set("env", "STREAM_APPLE_KAFKA__SASL_PASSWORD", "value", to="file:/etc/stream-apple-user/pass")),
    (check_secrets, _set("env", "STREAM_APPLE_KAFKA__SASL_PASSWORD", "value", to="hunter2")),
    (check_ports, _set("ports", "http", "containerPort", to=9500)),
    (check_ports, _set("ports", "http", "name", to="metrics")),
    (check_ports, _set("livenessProbe", "httpGet", "path", to="/healthz")),
    (check_ports, _replace("Service", "9400", "9401")),
    (check_ports, _replace("PodMonitor", "port: http", "port: metrics")),
    (check_ports, _replace("NetworkPolicy", "9093", "9092")),
    (check_selectors, _replace("PodDisruptionBudget", "name: stream-apple", "name: stream_apple")),
    (check_selectors, _replace("PodDisruptionBudget", "      app.kubernetes.io/instance: stream-apple\n", "")),
    (check_selectors, _replace("NetworkPolicy", "instance: stream-apple", "instance: other")),
    (check_selectors, _replace("PodMonitor", "jobLabel: app.kubernetes.io/instance", "jobLabel: app")),
    (check_serving, _replace("Deployment", "containerPort: 8080", "containerPort: 8081")),
    (check_serving, _replace("Deployment", "path: /v2/health/ready", "path: /readyz")),
    (check_serving, _replace("Deployment", "- serve\n", "- server\n")),
    (check_serving, _replace("Deployment", "SASL_PASSWORD", "SASL_PASS")),
    (check_serving, _replace("Deployment", "memory: 3200Mi", "memory: 2Gi")),
    (check_serving, _replace("HorizontalPodAutoscaler", "minReplicas: 2", "minReplicas: 1")),
    (check_serving, _replace("PodDisruptionBudget", "name: stream-apple-serve\n", "name: stream-apple\n")),
    (check_joining, _replace("StatefulSet", "- join\n", "- joint\n")),
    (check_joining, _replace("StatefulSet", "JOIN__MAX_OUTCOMES", "JOIN__MOST_OUTCOMES")),
    (check_joining, _replace("StatefulSet", "value: '500000'", "value: '5000000'")),
    (check_joining, _replace("StatefulSet", "partitions-per-joiner: '12'", "partitions-per-joiner: '6'")),
    (check_joining, _replace("StatefulSet", "serviceName: stream-apple-join", "serviceName: stream-apple")),
    (check_joining, _replace("PodDisruptionBudget", "name: stream-apple-join\n", "name: stream-apple\n")),
    (check_joining, _replace("PodMonitor", "name: stream-apple-join\n", "name: stream-apple-joiner\n")),
    (check_time, lambda pod: pod.spec.update(terminationGracePeriodSeconds=30)),
    (check_memory, _set("resources", "limits", "memory", to="2Gi")),
    (check_memory, _replace("ConfigMap", "bits = 22", "bits = 23")),
    (check_scale, _replace("ScaledObject", "maxReplicaCount: 12", "maxReplicaCount: 13")),
    (check_scale, _replace("ScaledObject", "minReplicaCount: 4", "minReplicaCount: 3")),
    (check_scale, _set("env", "STREAM_APPLE_WORKER__ON_STOP", "value", to="stay")),
    (check_scale, _replace("PodDisruptionBudget", "maxUnavailable: 1", "minAvailable: 4")),
    (check_lag, _replace("ScaledObject", ".kafka.svc:", ":")),
    (check_lag, _replace("ScaledObject", "consumerGroup: stream-apple", "consumerGroup: apple")),
    (check_lag, _replace("TriggerAuthentication", "SASL_USERNAME", "SASL_USER")),
    (check_topics, _replace("KafkaTopic", "min.insync.replicas", "min.in.sync.replicas")),
    (check_topics, _replace("KafkaTopic", "replicas: 3", "replicas: 2")),
    (check_topics, _replace("KafkaTopic", "name: outcomes", "name: clicks")),
    (check_permissions, _replace("StatefulSet", "secretName: stream-apple-join", "secretName: stream-apple")),
    (check_permissions, _replace("KafkaUser", "name: outcomes", "name: clicks")),
    (check_permissions, _replace("KafkaUser", "- Write", "- Read")),
    (check_permissions, _replace("KafkaUser", "patternType: prefix", "patternType: literal")),
    (check_hardening, _set("securityContext", "readOnlyRootFilesystem", to=False)),
    (check_hardening, _set("volumeMounts", "kernels", "mountPath", to="/tmp")),
    (check_images, _set("image", to="registry.example.com/stream-apple:0.0.9")),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_disagreement_is_found(rendered: dict[str, list[Manifest]], tmp_path: Path, number: int) -> None:
    """Each check fails when what it is about is changed on one side only."""
    check, change = MISTAKES[number]
    pod = Pod.of(copy.deepcopy(rendered["production"]))
    change(pod)
    with pytest.raises((AssertionError, ConfigurationError, click.UsageError)):
        check(Pod.of(pod.manifests), tmp_path)
