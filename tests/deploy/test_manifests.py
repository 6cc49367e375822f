"""Every manifest that `deploy/` can render is what Kubernetes and the operators accept, to the last field."""

from pathlib import Path

import pytest
import yaml
from deploy.manifests import COMPONENTS, DEPLOY, OVERLAYS, combine, copy, faults, of_operators, render
from deploy.operator_schemas import Manifest, operator_faults
from deploy.prometheus_rule import MANIFESTS, RULES, manifest

ALL = "all of them"


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_valid(kubectl: str, operators: Path, name: str) -> None:
    """It renders without a warning, no schema has anything against it, and no name is given twice."""
    manifests = render(kubectl, DEPLOY / "overlays" / name)
    assert faults(operators, manifests) == []
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [None, *COMPONENTS, ALL])
def test_the_base_is_valid_with_each_component(kubectl: str, operators: Path, tmp_path: Path, name: str | None) -> None:
    """The base alone, with every component by itself, and with all of them: each adds something and breaks nothing."""
    chosen = COMPONENTS if name == ALL else [] if name is None else [name]
    tree = copy(tmp_path)
    manifests = render(kubectl, combine(tree, chosen))
    assert faults(operators, manifests) == []
    assert (manifests == render(kubectl, tree / "base")) == (name is None)


def test_every_component_has_a_readme() -> None:
    """Whoever lists the components learns what each is for."""
    assert [name for name in COMPONENTS if not (DEPLOY / "components" / name / "README.md").is_file()] == []


def test_the_operator_s_rules_are_the_plain_ones(kubectl: str, tmp_path: Path) -> None:
    """Each PrometheusRule is what `prometheus_rule.py` makes of a rule file, and the component has the rules of all."""
    assert {path.name: path.read_text(encoding="utf-8") for path in MANIFESTS.iterdir()} == {
        path.name: manifest(path) for path in RULES
    }
    rendered = render(kubectl, combine(copy(tmp_path), ["monitoring"]))
    found = {one["metadata"]["name"]: one["spec"] for one in rendered if one["kind"] == "PrometheusRule"}
    assert found == {f"stream-apple-{path.stem}": yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES}


MUTATIONS = [
    ("base/stateful-set.yaml", "terminationGracePeriodSeconds: 45", "terminationGraceSeconds: 45"),
    ("base/stateful-set.yaml", "readOnlyRootFilesystem: true", "readonlyRootFilesystem: true"),
    ("base/stateful-set.yaml", "containerPort: 9400", "containerPort: http"),
    ("base/stateful-set.yaml", "      serviceAccountName", "    serviceAccountName"),
    ("base/pod-disruption-budget.yaml", "policy/v1", "policy/v1beta1"),
    ("base/service.yaml", "clusterIP: None", "clusterIp: None"),
    ("base/service-account.yaml", "automountServiceAccountToken: false", 'automountServiceAccountToken: "no"'),
    ("components/network-policy/network-policy.yaml", "podSelector:\n    matchLabels", "podSelector:\n    matchLabel"),
    ("components/tls-sasl/stateful-set.yaml", "secretName: stream-apple", "name: stream-apple"),
    ("components/strimzi/topics.yaml", "  partitions: 12", '  partitions: "12"'),
    ("components/strimzi/topics.yaml", "  replicas: 3", "  replicationFactor: 3"),
    ("components/strimzi/user.yaml", "type: scram-sha-512", "type: scram"),
    ("components/strimzi/user.yaml", "patternType: prefix", "patterntype: prefix"),
    ("components/strimzi/user.yaml", "kafka.strimzi.io/v1\n", "kafka.strimzi.io/v2\n"),
    ("components/keda/scaled-object.yaml", "maxReplicaCount: 12", "maxReplicas: 12"),
    ("components/keda/scaled-object.yaml", "parameter: ca,", "param: ca,"),
    ("components/serve/deployment.yaml", "maxUnavailable: 0", "maxUnavailabel: 0"),
    ("components/serve/autoscaler.yaml", "autoscaling/v2", "autoscaling/v2beta2"),
    ("components/serve/service.yaml", "targetPort: http", "targetport: http"),
    ("components/join/stateful-set.yaml", "serviceName:", "servicename:"),
    ("components/join/network-policy.yaml", "policyTypes", "policytypes"),
    ("components/strimzi-join/topics.yaml", "  replicas: 3", "  replicationFactor: 3"),
    ("components/strimzi-join/user.yaml", "patternType: prefix", "patterntype: prefix"),
    ("components/monitoring/pod-monitor.yaml", "podMetricsEndpoints", "endpoints"),
    ("components/monitoring/rules/recording.yaml", "- record:", "- recordd:"),
    ("components/monitoring/rules/workers.yaml", "- alert:", "- allert:"),
]


@pytest.fixture(scope="module")
def mistaken(kubectl: str, operators: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[Manifest] | str]:
    """For each mistake what is rendered with it, or the complaint; what operators have against all is known then."""
    rendered: list[list[Manifest] | str] = []
    for file, right, wrong in MUTATIONS:
        tree = copy(tmp_path_factory.mktemp("mistaken"))
        text = (tree / file).read_text(encoding="utf-8")
        assert right in text
        (tree / file).write_text(text.replace(right, wrong), encoding="utf-8")
        part, name = file.split("/")[:2]
        try:
            rendered.append(render(kubectl, combine(tree, [name] if part == "components" else [])))
        except AssertionError as error:
            rendered.append(str(error))
    operator_faults(operators, [one for found in rendered if isinstance(found, list) for one in of_operators(found)])
    return rendered


@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=[f"{file} {wrong}" for file, _, wrong in MUTATIONS])
def test_a_mistake_is_found(operators: Path, mistaken: list[list[Manifest] | str], number: int) -> None:
    """A mistyped field, a wrong type or a version that is gone does not pass: it fails to render, or has a fault."""
    found = mistaken[number]
    assert found if isinstance(found, str) else faults(operators, found)
