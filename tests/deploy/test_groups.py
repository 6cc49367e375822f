"""Several groups in one namespace, rendered: nothing of one has the name, or selects the pods, of another."""

import re
from pathlib import Path

import pytest
import yaml
from deploy.agreement import GROUP_LABEL, NAME_LABEL, check_hardening, check_images
from deploy.manifests import DEPLOY, copy, render
from deploy.operator_schemas import Manifest
from deploy.worker_manifest import Pod, all_of, only

from stream_apple.cli.compare import command as compare
from stream_apple.config import load

GROUPS = ("clicks", "clicks-next")
FOLDER = "overlays/two-groups"
RUNBOOK = "https://example.com/wiki/runbook.md"


def of_group(kubectl: str, tree: Path, group: str, components: list[str]) -> list[Manifest]:
    """What a group's kustomization renders in `tree`, a copy of `deploy/`, with these components in it."""
    file = tree / FOLDER / group / "kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text(encoding="utf-8"))
    kustomization["components"] = [f"../../../components/{name}" for name in components]
    file.write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return render(kubectl, file.parent)


def test_a_pod_falls_under_one_of_each(kubectl: str) -> None:
    """Of budgets, services and sets, exactly one selects a pod: two budgets, and no pod could be evicted."""
    manifests = render(kubectl, DEPLOY / FOLDER)
    sets = all_of(manifests, "StatefulSet")
    assert sorted(one["metadata"]["labels"][GROUP_LABEL] for one in sets) == sorted(GROUPS)
    for one in sets:
        labels = one["spec"]["template"]["metadata"]["labels"]
        selectors = {
            kind: [
                found["spec"]["selector"].get("matchLabels", found["spec"]["selector"])
                for found in all_of(manifests, kind)
            ]
            for kind in ("PodDisruptionBudget", "Service", "StatefulSet")
        }
        for kind, found in selectors.items():
            assert len(found) == len(GROUPS), kind
            assert sum(each.items() <= labels.items() for each in found) == 1, kind


def test_groups_share_nothing_that_one_of_them_writes(kubectl: str, tmp_path: Path) -> None:
    """They read the same examples; their predictions, dead letters, models and offsets are their own."""
    (one, other) = (
        Pod.of(render(kubectl, DEPLOY / FOLDER / group)).configuration(tmp_path / group) for group in GROUPS
    )
    assert one.topics.examples == other.topics.examples
    for name in ("predictions", "dead_letters", "models"):
        assert getattr(one.topics, name) != getattr(other.topics, name)
    assert one.worker.group != other.worker.group
    assert one.worker.transactional_id != other.worker.transactional_id


def test_one_process_compares_them(kubectl: str, tmp_path: Path) -> None:
    """It has the configuration of either as its workers have it, is scraped, and is asked where it listens."""
    manifests = render(kubectl, DEPLOY / FOLDER)
    (deployment,) = all_of(manifests, "Deployment")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    command, *options = container["args"]
    parsed = compare.make_context(command, [*options]).params
    assert command == "compare"
    assert parsed["follow"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    maps = {one["metadata"]["name"]: one["data"] for one in all_of(manifests, "ConfigMap")}
    sets = {one["metadata"]["labels"][GROUP_LABEL]: one for one in all_of(manifests, "StatefulSet")}
    found = {each["name"]: each["configMap"]["name"] for each in template["spec"]["volumes"] if "configMap" in each}
    for side, group in zip(("champion", "challenger"), GROUPS, strict=True):
        volumes = sets[group]["spec"]["template"]["spec"]["volumes"]
        (name,) = (each["configMap"]["name"] for each in volumes if "configMap" in each)
        assert found[side] == name
        (file,) = maps[name]
        assert str(parsed[side]) == f"{mounted[side]}/{file}"
        (tmp_path / side).write_text(maps[name][file], encoding="utf-8")
        assert load(tmp_path / side, {}).worker.group == group
    assert container["ports"] == [{"name": "http", "containerPort": parsed["port"]}]
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    labels = template["metadata"]["labels"]
    monitors = [one["spec"]["selector"]["matchLabels"].items() for one in all_of(manifests, "PodMonitor")]
    assert sum(each <= labels.items() for each in monitors) == 1
    beside = Pod.of([one for one in manifests if one["metadata"].get("labels", {}).get(GROUP_LABEL) == GROUPS[0]])
    assert deployment in beside.manifests
    check_hardening(beside, tmp_path)
    check_images(beside, tmp_path)


@pytest.mark.parametrize("group", GROUPS)
def test_the_page_s_patch_exchanges_the_group_that_is_served(kubectl: str, tmp_path: Path, group: str) -> None:
    """With it, and with the one name in it changed, replicas have the configuration of the group that it names."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    file = copy(tmp_path) / FOLDER / "kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text(encoding="utf-8"))
    kustomization |= yaml.safe_load(block.replace("stream-apple-clicks", f"stream-apple-{group}"))
    file.write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    manifests = render(kubectl, file.parent)
    spec = only(manifests, "Deployment", "stream-apple-serve")["spec"]["template"]["spec"]
    of_group = [one for one in manifests if one["metadata"].get("labels", {}).get(GROUP_LABEL) == group]
    assert spec["serviceAccountName"] == only(of_group, "ServiceAccount")["metadata"]["name"]
    config, _ = spec["volumes"]
    assert config["configMap"]["name"] == only(of_group, "ConfigMap")["metadata"]["name"]
    assert only(manifests, "Service", "stream-apple-serve")["spec"]["selector"][NAME_LABEL] == "stream-apple-serve"


def test_a_group_with_components_is_whole(kubectl: str, tmp_path: Path) -> None:
    """Its label goes where its pods are selected, and not to Kafka's or the name servers'; names follow its suffix."""
    manifests = of_group(kubectl, copy(tmp_path), "clicks", ["tls-sasl", "network-policy", "keda"])
    policy = only(manifests, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"][GROUP_LABEL] == "clicks"
    peers = [peer for rule in policy["egress"] for peer in rule["to"]]
    assert len(peers) == 2
    assert all(set(peer["podSelector"]) == {"matchExpressions"} for peer in peers)
    (scaled,) = all_of(manifests, "ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] == only(manifests, "StatefulSet")["metadata"]["name"]
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == only(manifests, "TriggerAuthentication")["metadata"]["name"]


def test_the_page_s_patch_has_keda_ask_for_the_lag_of_the_group(kubectl: str, tmp_path: Path) -> None:
    """KEDA takes a group that there is not for one that has all of the topic before it."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (DEPLOY / "components/keda/README.md").read_text("utf-8"), re.DOTALL)
    tree = copy(tmp_path)
    file = tree / FOLDER / "clicks" / "kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text(encoding="utf-8")) | yaml.safe_load(block)
    file.write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    manifests = of_group(kubectl, tree, "clicks", ["tls-sasl", "keda"])
    config = Pod.of(manifests).configuration(tmp_path)
    (trigger,) = only(manifests, "ScaledObject")["spec"]["triggers"]
    found = trigger["metadata"]["consumerGroup"], trigger["metadata"]["topic"]
    assert found == (config.worker.group, config.topics.examples)


@pytest.mark.parametrize("overlay", ["production", "two-groups"])
def test_one_setting_makes_links_to_the_runbook_absolute(kubectl: str, tmp_path: Path, overlay: str) -> None:
    """Every alert's link begins with the address of `settings.yaml`, and keeps its heading; the file is not applied."""
    tree = copy(tmp_path)
    as_it_is = _links(render(kubectl, tree / "overlays" / overlay))
    settings = tree / "components/monitoring/settings.yaml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("runbook: deploy/monitoring/runbook.md", f"runbook: {RUNBOOK}"), encoding="utf-8")
    manifests = render(kubectl, tree / "overlays" / overlay)
    assert len(as_it_is) > 20
    assert [link.replace("deploy/monitoring/runbook.md#", f"{RUNBOOK}#") for link in as_it_is] == _links(manifests)
    assert all(link.startswith(f"{RUNBOOK}#streamapple") for link in _links(manifests))
    assert "monitoring-settings" not in {one["metadata"]["name"] for one in manifests}


def _links(manifests: list[Manifest]) -> list[str]:
    return [
        rule["annotations"]["runbook_url"]
        for one in all_of(manifests, "PrometheusRule")
        for group in one["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
