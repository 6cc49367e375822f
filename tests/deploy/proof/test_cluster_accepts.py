"""A real API server takes every overlay, its pods under Pod Security `restricted`, and evicts a pod of two groups.

There are no controllers and no nodes: what these would do, a pod made from its template, a status, is done here.
"""

import copy
import json
from collections.abc import Callable

import pytest
from deploy.manifests import DEPLOY, OVERLAYS, render
from deploy.operator_schemas import Manifest
from deploy.proof.apiserver import API_SERVER, ApiServer
from deploy.proof.record import MANIFESTS
from deploy.worker_manifest import all_of

SUBJECT = MANIFESTS
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}

pytestmark = pytest.mark.timeout(3600)


def namespace_of(manifests: list[Manifest]) -> str:
    """The one namespace that all of them are in."""
    (found,) = {one["metadata"]["namespace"] for one in manifests if one["kind"] != "Namespace"}
    assert isinstance(found, str)
    return found


def make_namespace(cluster: ApiServer, name: str) -> None:
    """A namespace that enforces `restricted`, with the account that a controller would make in it."""
    if cluster.kubectl("get", "namespace", name).returncode:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}})
    if cluster.kubectl("get", "serviceaccount", "default", f"--namespace={name}").returncode:
        cluster.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        )


@pytest.fixture
def applied(cluster: ApiServer, kubectl: str) -> Callable[[str], list[Manifest]]:
    """`applied("dev")` applies an overlay, if need be, and returns its manifests."""

    def apply(overlay: str) -> list[Manifest]:
        manifests = render(kubectl, DEPLOY / "overlays" / overlay)
        cluster.define(manifests)
        spaces = all_of(manifests, "Namespace")
        if not spaces:
            make_namespace(cluster, namespace_of(manifests))
        cluster.done("apply", "--kustomize", DEPLOY / "overlays" / overlay, "--validate=strict")
        make_namespace(cluster, namespace_of(manifests))
        return manifests

    return apply


def pod_of(owner: Manifest, name: str) -> Manifest:
    """What a controller would make of the template."""
    template = copy.deepcopy(owner["spec"]["template"])
    metadata = {**template["metadata"], "name": name, "namespace": owner["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def run_pod(cluster: ApiServer, pod: Manifest) -> None:
    """Make it, and say of it what its node would: that it runs and is ready."""
    cluster.create(pod)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    set_status(cluster, pod, status)


def set_status(cluster: ApiServer, one: Manifest, status: Manifest) -> None:
    """As who watches over it would."""
    where = (f"--namespace={one['metadata']['namespace']}", "--subresource=status", "--type=merge")
    patch = ("patch", one["kind"].lower(), one["metadata"]["name"], *where, f"--patch={json.dumps({'status': status})}")
    cluster.done(*patch)


def test_it_is_the_server_that_was_built(cluster: ApiServer) -> None:
    """Of the version that the module names."""
    assert json.loads(cluster.done("get", "--raw", "/version"))["gitVersion"] == API_SERVER.version()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_applied(cluster: ApiServer, applied: Callable[[str], list[Manifest]], overlay: str) -> None:
    """Without a warning and with every field known; applied once more, it changes nothing."""
    manifests = applied(overlay)
    before = versions_of(cluster, overlay)
    assert len(before) == len(manifests)
    cluster.done("apply", "--kustomize", DEPLOY / "overlays" / overlay, "--validate=strict")
    assert versions_of(cluster, overlay) == before


def versions_of(cluster: ApiServer, overlay: str) -> dict[tuple[str, str], str]:
    """Of every object of the overlay, that of the server's store, which each change raises."""
    found = cluster.get("--kustomize", str(DEPLOY / "overlays" / overlay))["items"]
    return {(one["kind"], one["metadata"]["name"]): one["metadata"]["resourceVersion"] for one in found}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_its_pods_are_admitted_as_restricted(
    cluster: ApiServer, applied: Callable[[str], list[Manifest]], overlay: str
) -> None:
    """The namespace enforces the strictest of Pod Security's levels, and each template makes a pod that it lets in.

    Taken away one by one, what makes them so is missed: it is this admission that has looked at them.
    """
    manifests = applied(overlay)
    space = namespace_of(manifests)
    labels = cluster.get("namespace", space)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    owners = [*all_of(manifests, "StatefulSet"), *all_of(manifests, "Deployment")]
    assert owners
    for owner in owners:
        pod = pod_of(owner, f"{owner['metadata']['name']}-admitted")
        cluster.create(pod)
        for change in (_as_root, _with_capabilities, _without_seccomp):
            wrong = copy.deepcopy(pod)
            wrong["metadata"]["name"] += "-not"
            change(wrong["spec"])
            refused = cluster.kubectl("create", "--filename=-", given=wrong)
            assert refused.returncode, change
            assert 'violates PodSecurity "restricted' in refused.stderr


def _as_root(spec: Manifest) -> None:
    spec["securityContext"]["runAsNonRoot"] = False


def _with_capabilities(spec: Manifest) -> None:
    del spec["containers"][0]["securityContext"]["capabilities"]


def _without_seccomp(spec: Manifest) -> None:
    del spec["securityContext"]["seccompProfile"]


@pytest.fixture(scope="module")
def two_pods(cluster: ApiServer, kubectl: str) -> list[Manifest]:
    """A running pod of each, and the budgets as the controller that watches over them would have them."""
    overlay = DEPLOY / "overlays" / "two-groups"
    manifests = render(kubectl, overlay)
    cluster.define(manifests)
    cluster.done("apply", "--kustomize", overlay)
    make_namespace(cluster, namespace_of(manifests))
    pods = [pod_of(owner, f"{owner['metadata']['name']}-0") for owner in all_of(manifests, "StatefulSet")]
    for pod in pods:
        run_pod(cluster, pod)
    for budget in all_of(manifests, "PodDisruptionBudget"):
        allow_one(cluster, budget)
    return pods


def test_a_pod_falls_under_one_budget(cluster: ApiServer, two_pods: list[Manifest]) -> None:
    """By the server's own choice of pods: each budget has one, and each pod one."""
    chosen = []
    for budget in cluster.get("poddisruptionbudgets", "--namespace=stream-apple")["items"]:
        labels = budget["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found = cluster.get("pods", "--namespace=stream-apple", f"--selector={selector}")["items"]
        (name,) = [one["metadata"]["name"] for one in found if one["metadata"]["name"].endswith("-0")]
        chosen.append(name)
    assert sorted(chosen) == sorted(pod["metadata"]["name"] for pod in two_pods)


def test_a_pod_can_be_evicted(cluster: ApiServer, two_pods: list[Manifest]) -> None:
    """As a drain does; where a second budget selects the pod, too, it is refused: so it was without the label."""
    first, second = two_pods
    evict(cluster, first)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "of-both", "namespace": "stream-apple"},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/name": "stream-apple"}},
        },
    }
    cluster.create(budget)
    try:
        with pytest.raises(AssertionError, match="more than one PodDisruptionBudget"):
            evict(cluster, second)
    finally:
        cluster.done("delete", "poddisruptionbudget", "of-both", "--namespace=stream-apple")
    evict(cluster, second)


def allow_one(cluster: ApiServer, budget: Manifest) -> None:
    """One disruption, as `maxUnavailable: 1` gives for one healthy pod."""
    known = cluster.get(
        "poddisruptionbudget", budget["metadata"]["name"], f"--namespace={budget['metadata']['namespace']}"
    )
    counted = {"currentHealthy": 1, "desiredHealthy": 0, "disruptionsAllowed": 1, "expectedPods": 1}
    set_status(cluster, known, {"observedGeneration": known["metadata"]["generation"], **counted})


def evict(cluster: ApiServer, pod: Manifest) -> None:
    """Ask for it as `kubectl drain` does; AssertionError with the reason if it is refused."""
    space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
    path = f"/api/v1/namespaces/{space}/pods/{name}/eviction"
    answer = json.loads(cluster.done("create", "--raw", path, "--filename=-", given=eviction))
    assert answer["status"] == "Success", answer


def _listed(manifests: list[Manifest]) -> Manifest:
    return {"apiVersion": "v1", "kind": "List", "items": manifests}
