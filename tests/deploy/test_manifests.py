"""Every manifest that `deploy/` can render is what Kubernetes and the operators accept, to the last field."""

from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
import yaml
from deploy.manifests import COMPONENTS, DEPLOY, OVERLAYS, combine, copy, faults, of_operators, render
from deploy.operator_schemas import Manifest, operator_faults
from deploy.prometheus_rule import MANIFESTS, RULES, manifest

ALL = "all of them"


@pytest.fixture(scope="module")
def overlays(kubectl: str) -> dict[str, list[Manifest]]:
    """Each overlay rendered."""
    return {name: render(kubectl, DEPLOY / "overlays" / name) for name in OVERLAYS}


@pytest.fixture(scope="module")
def combinations(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, list[Manifest]]:
    """The base rendered with nothing, with every component by itself, and with all of them."""
    every: list[tuple[str | None, list[str]]] = [
        (None, []),
        *((name, [name]) for name in COMPONENTS),
        (ALL, COMPONENTS),
    ]
    return {
        name: render(kubectl, combine(copy(tmp_path_factory.mktemp("combination")), components))
        for name, components in every
    }


@pytest.fixture(scope="module")
def looked_at(
    operators: Path, overlays: dict[str, list[Manifest]], combinations: dict[str | None, list[Manifest]]
) -> None:
    """Look at what operators define in all of these at once: each start of their compiler takes two seconds."""
    operator_faults(operators, of_operators(list(chain(*overlays.values(), *combinations.values()))))


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_is_valid(operators: Path, overlays: dict[str, list[Manifest]], name: str) -> None:
    """It renders without a warning, no schema has anything against it, and no name is given twice."""
    manifests = overlays[name]
    assert faults(operators, manifests) == []
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def base(kubectl: str) -> list[Manifest]:
    """What a deployment without any component is."""
    return render(kubectl, DEPLOY / "base")


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("name", [None, *COMPONENTS, ALL])
def test_the_base_is_valid_with_each_component(
    operators: Path, combinations: dict[str | None, list[Manifest]], base: list[Manifest], name: str | None
) -> None:
    """The base alone, with every component by itself, and with all of them: each adds something and breaks nothing."""
    manifests = combinations[name]
    assert faults(operators, manifests) == []
    assert (manifests == base) == (name is None)


def test_every_component_has_a_readme() -> None:
    """Whoever lists the components learns what each is for."""
    assert [name for name in COMPONENTS if not (DEPLOY / "components" / name / "README.md").is_file()] == []


def test_the_operator_s_rules_are_the_plain_ones(combinations: dict[str | None, list[Manifest]]) -> None:
    """Each PrometheusRule is what `prometheus_rule.py` makes of a rule file, and the component has the rules of all."""
    assert {path.name: path.read_text(encoding="utf-8") for path in MANIFESTS.iterdir()} == {
        path.name: manifest(path) for path in RULES
    }
    rules = [one for one in combinations["monitoring"] if one["kind"] == "PrometheusRule"]
    assert {one["metadata"]["name"]: one["spec"] for one in rules} == {
        f"stream-apple-{path.stem}": yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES
    }


ONE_OF_A_KIND = [
    ("base/stateful-set.yaml", "terminationGracePeriodSeconds: 45", "terminationGraceSeconds: 45"),
    ("base/stateful-set.yaml", "containerPort: 9400", "containerPort: http"),
    ("base/stateful-set.yaml", "      serviceAccountName", "    serviceAccountName"),
    ("base/pod-disruption-budget.yaml", "policy/v1", "policy/v1beta1"),
    ("base/service-account.yaml", "automountServiceAccountToken: false", 'automountServiceAccountToken: "no"'),
    ("components/tls-sasl/stateful-set.yaml", "secretName: stream-apple", "name: stream-apple"),
    ("components/strimzi/topics.yaml", "  partitions: 12", '  partitions: "12"'),
    ("components/strimzi/user.yaml", "type: scram-sha-512", "type: scram"),
    ("components/strimzi/user.yaml", "kafka.strimzi.io/v1\n", "kafka.strimzi.io/v2\n"),
    ("components/keda/scaled-object.yaml", "maxReplicaCount: 12", "maxReplicas: 12"),
    ("components/serve/deployment.yaml", "maxUnavailable: 0", "maxUnavailabel: 0"),
    ("components/monitoring/pod-monitor.yaml", "podMetricsEndpoints", "endpoints"),
    ("components/monitoring/rules/recording.yaml", "- record:", "- recordd:"),
]
"""(File, what is right, what is wrong): a field, a type, a place, a value and a version, of Kubernetes and operators,
in the base, in what is added and in what is patched.
"""
FURTHER = [
    ("base/stateful-set.yaml", "readOnlyRootFilesystem: true", "readonlyRootFilesystem: true"),
    ("base/service.yaml", "clusterIP: None", "clusterIp: None"),
    ("components/network-policy/network-policy.yaml", "podSelector:\n    matchLabels", "podSelector:\n    matchLabel"),
    ("components/strimzi/topics.yaml", "  replicas: 3", "  replicationFactor: 3"),
    ("components/strimzi/user.yaml", "patternType: prefix", "patterntype: prefix"),
    ("components/keda/scaled-object.yaml", "parameter: ca,", "param: ca,"),
    ("components/serve/autoscaler.yaml", "autoscaling/v2", "autoscaling/v2beta2"),
    ("components/serve/service.yaml", "targetPort: http", "targetport: http"),
    ("components/join/stateful-set.yaml", "serviceName:", "servicename:"),
    ("components/join/network-policy.yaml", "policyTypes", "policytypes"),
    ("components/strimzi-join/topics.yaml", "  replicas: 3", "  replicationFactor: 3"),
    ("components/strimzi-join/user.yaml", "patternType: prefix", "patterntype: prefix"),
    ("components/monitoring/rules/workers.yaml", "- alert:", "- allert:"),
]


@pytest.mark.parametrize(
    "mistakes",
    [pytest.param(ONE_OF_A_KIND, id="one of a kind"), pytest.param(FURTHER, id="further", marks=pytest.mark.long)],
)
def test_a_mistake_is_found(
    kubectl: str, operators: Path, tmp_path: Path, mistakes: list[tuple[str, str, str]]
) -> None:
    """A mistyped field, a wrong type or a version that is gone does not pass: it fails to render, or has a fault."""
    rendered: dict[str, list[Manifest]] = {}
    for number, (file, right, wrong) in enumerate(mistakes):
        tree = copy(tmp_path / str(number))
        text = (tree / file).read_text(encoding="utf-8")
        assert right in text
        (tree / file).write_text(text.replace(right, wrong), encoding="utf-8")
        part, name = file.split("/")[:2]
        with suppress(AssertionError):  # the complaint of `render`
            rendered[f"{file} {wrong}"] = render(kubectl, combine(tree, [name] if part == "components" else []))
    # Their compiler is started once for all.
    operator_faults(operators, of_operators(list(chain(*rendered.values()))))
    assert [mistake for mistake, manifests in rendered.items() if not faults(operators, manifests)] == []
