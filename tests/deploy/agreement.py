"""What the manifests and the code must say alike: one check for each subject, which raises if they do not."""

import re
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Consumer, KafkaException, Producer
from deploy.manifests import REPOSITORY
from deploy.worker_manifest import (
    Pod,
    all_of,
    bytes_of,
    joining_memory,
    memory_needed,
    only,
    serving_memory,
)
from prometheus_client import CollectorRegistry

from stream_apple import cli
from stream_apple.adapters.kafka.client_properties import Identity, consumer_properties, producer_properties
from stream_apple.adapters.kafka.retry import SHORTENED_DEADLINE_S
from stream_apple.adapters.kafka.topics import RETENTION_MS, NeededTopics, written
from stream_apple.adapters.kafka.transactional_producer import _CLOSE_S
from stream_apple.config import Config, load
from stream_apple.http.application import routes
from stream_apple.monitoring.health import Health
from stream_apple.stream.loop.loop import SAVING_S

PATHS = {route.path for route in routes(Health(), CollectorRegistry())}
GROUP_LABEL = "app.kubernetes.io/instance"
NAME_LABEL = "app.kubernetes.io/name"
SERVE, JOIN, COMPARE = "stream-apple-serve", "stream-apple-join", "stream-apple-compare"
ANNOTATION = "stream-apple/partitions-per-worker"
JOINER_ANNOTATION = "stream-apple/partitions-per-joiner"
DOCKERFILE = (REPOSITORY / "docker" / "Dockerfile").read_text(encoding="utf-8")


def loaded(pod: Pod, directory: Path) -> Config:
    """The configuration, if it is whole and the worker's id is the pod's."""
    config = pod.configuration(directory)
    assert config.worker.id == pod.first_name
    return config


def check_configuration(pod: Pod, directory: Path) -> None:
    """The worker can be started: command, options, settings, and librdkafka knows every property."""
    name, *options = pod.worker["args"]
    command = cli.main.get_command(click.Context(cli.main), name)
    assert command is not None, f"no command {name}"
    command.make_context(name, options)
    config = loaded(pod, directory)
    identity = Identity(config.worker.group, config.worker.id, config.worker.transactional_id)
    quiet = {"log_level": 0}
    for client, properties in (
        (Consumer, consumer_properties(config.kafka, identity)),
        (Producer, producer_properties(config.kafka, identity)),
    ):
        try:
            client({**properties, **quiet}).close()
        except KafkaException as error:
            # The certificate is made up; that it was tried to be read shows that the property is known.
            if "ssl.ca.location failed" not in str(error):
                raise AssertionError(str(error)) from error


def check_secrets(pod: Pod, directory: Path) -> None:
    """No secret is in the environment: it is in a mounted file that the environment or the client names."""
    for name, value in pod.environment().items():
        if "PASSWORD" in name:
            assert value.startswith("file:/"), name
    mounted = pod.files()
    config = loaded(pod, directory)
    if "sasl.password" in config.kafka:
        assert config.kafka["sasl.password"] == "content of /etc/stream-apple-user/password"
        assert config.kafka["ssl.ca.location"] in mounted
        assert config.kafka["security.protocol"] == "SASL_SSL"


def check_ports(pod: Pod, directory: Path) -> None:
    """Service, monitor, policy and probes reach the port on which the worker listens, at paths that it answers."""
    ports = {port["name"]: port["containerPort"] for port in pod.worker["ports"]}
    config = loaded(pod, directory)
    assert ports == {"http": config.http.port}
    # If the port were one of several, a pod on its node's network would take the next one, and answer no probe.
    assert len(config.http.ports) == 1
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        get = pod.worker[probe]["httpGet"]
        assert get["path"] == path
        assert path in PATHS
        assert get["port"] in ports
    (service,) = only(pod.manifests, "Service")["spec"]["ports"]
    assert (service["port"], service["targetPort"]) == (ports["http"], "http")
    for monitor in all_of(pod.manifests, "PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            assert endpoint["port"] in ports
            assert endpoint["path"] in PATHS
    for policy in all_of(pod.manifests, "NetworkPolicy"):  # the workers', the replicas', and the joiners'
        allowed = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
        assert allowed == ["http"]
        outward = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
        assert int(str(config.kafka["bootstrap.servers"]).rpartition(":")[2]) in outward


def check_selectors(pod: Pod, directory: Path) -> None:
    """Everything that selects pods selects the worker's; but for a monitor of all groups, those of this group alone."""
    labels = pod.template["metadata"]["labels"]
    spec = pod.stateful_set["spec"]
    assert labels[GROUP_LABEL] == loaded(pod, directory).worker.group
    assert spec["serviceName"] == only(pod.manifests, "Service")["metadata"]["name"]
    chosen = [
        spec["selector"]["matchLabels"],
        only(pod.manifests, "Service")["spec"]["selector"],
        only(pod.manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(spread["labelSelector"]["matchLabels"] for spread in pod.spec["topologySpreadConstraints"]),
        *(one["spec"]["podSelector"]["matchLabels"] for one in of_workers(pod, "NetworkPolicy")),
    ]
    for selector in chosen:
        assert selector == {name: labels[name] for name in (GROUP_LABEL, "app.kubernetes.io/name")}
    for monitor in of_workers(pod, "PodMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert GROUP_LABEL not in monitor["spec"]["selector"]["matchLabels"]
        assert monitor["spec"]["jobLabel"] == GROUP_LABEL


def of_workers(pod: Pod, kind: str) -> list[dict[str, Any]]:
    """The resources of a kind that are not about other processes."""
    others = (SERVE, JOIN, COMPARE)
    return [one for one in all_of(pod.manifests, kind) if not one["metadata"]["name"].startswith(others)]


def check_serving(pod: Pod, directory: Path) -> None:
    """Replicas can be started by the workers' configuration, are reached where they listen, and have memory for all."""
    for deployment in (one for one in all_of(pod.manifests, "Deployment") if one["metadata"]["name"].startswith(SERVE)):
        name, template = deployment["metadata"]["name"], deployment["spec"]["template"]
        (container,) = template["spec"]["containers"]
        command, *options = container["args"]
        found = cli.main.get_command(click.Context(cli.main), command)
        assert found is not None, f"no command {command}"
        found.make_context(command, [*options])
        assert options == pod.worker["args"][1:]
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted == {mount["name"]: mount["mountPath"] for mount in pod.worker["volumeMounts"]}
        assert {each["name"]: each for each in template["spec"]["volumes"]} == {
            each["name"]: each for each in pod.spec["volumes"]
        }
        pod.configuration(directory)  # writes the files
        toml = directory / options[options.index("--config") + 1].lstrip("/")
        environment = {each["name"]: str(each["value"]) for each in container["env"]}
        config = load(toml, {key: value.replace("file:/", f"file:{directory}/") for key, value in environment.items()})
        assert config.kafka == pod.configuration(directory).kafka
        assert container["ports"] == [{"name": "http", "containerPort": config.serve.port}]
        for probe, path in (("startupProbe", "live"), ("livenessProbe", "live"), ("readinessProbe", "ready")):
            assert container[probe]["httpGet"] == {"path": f"/v2/health/{path}", "port": "http"}
        (port,) = only(pod.manifests, "Service", name)["spec"]["ports"]
        assert port["targetPort"] == "http"
        labels = template["metadata"]["labels"]
        assert labels[GROUP_LABEL] == config.worker.group
        assert labels["app.kubernetes.io/name"] != pod.template["metadata"]["labels"]["app.kubernetes.io/name"]
        for selector in (
            deployment["spec"]["selector"]["matchLabels"],
            only(pod.manifests, "Service", name)["spec"]["selector"],
            only(pod.manifests, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"],
            only(pod.manifests, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
        ):
            assert selector == labels
        scaler = only(pod.manifests, "HorizontalPodAutoscaler", name)["spec"]
        assert (scaler["scaleTargetRef"]["kind"], scaler["scaleTargetRef"]["name"]) == ("Deployment", name)
        assert "replicas" not in deployment["spec"]
        assert scaler["minReplicas"] > 1
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"]
        assert "cpu" not in resources["limits"]
        partitions = int(template["metadata"]["annotations"]["stream-apple/partitions"])
        assert partitions >= partitions_of(pod)
        needed = serving_memory(config.learner.bits or 0, partitions)
        assert 1.05 * needed <= bytes_of(resources["limits"]["memory"]) <= 1.67 * needed


def joiners(pod: Pod) -> list[Pod]:
    """Their pods, if there are some."""
    return [
        Pod(pod.manifests, one, "join")
        for one in all_of(pod.manifests, "StatefulSet")
        if one["metadata"]["name"].startswith(JOIN)
    ]


def check_joining(pod: Pod, directory: Path) -> None:
    """Joiners can be started, are found by what watches and selects them, have time to end, and memory for outcomes.

    The rest is as with workers, whose checks they pass.
    """
    for joiner in joiners(pod):
        check_configuration(joiner, directory)
        check_secrets(joiner, directory)
        check_time(joiner, directory)
        config, name = loaded(joiner, directory), joiner.stateful_set["metadata"]["name"]
        assert joiner.worker["args"][0] == "join"
        assert joiner.worker["args"][1:] == pod.worker["args"][1:]
        # What says where Kafka is, and who may ask, is the workers'.
        same = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "ssl.ca.location")
        workers = loaded(pod, directory).kafka
        assert {key: config.kafka.get(key) for key in same} == {key: workers.get(key) for key in same}
        assert joiner.worker["ports"] == [{"name": "http", "containerPort": config.http.port}]
        for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert joiner.worker[probe]["httpGet"] == {"path": path, "port": "http"}
        labels = joiner.template["metadata"]["labels"]
        assert labels[NAME_LABEL] == JOIN
        assert joiner.stateful_set["spec"]["serviceName"] == only(pod.manifests, "Service", name)["metadata"]["name"]
        for selector in (
            joiner.stateful_set["spec"]["selector"]["matchLabels"],
            only(pod.manifests, "Service", name)["spec"]["selector"],
            only(pod.manifests, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"],
            only(pod.manifests, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
            *(spread["labelSelector"]["matchLabels"] for spread in joiner.spec["topologySpreadConstraints"]),
        ):
            assert selector == labels
        monitors = all_of(pod.manifests, "PodMonitor")
        theirs = [one for one in monitors if one["spec"]["selector"]["matchLabels"].items() <= labels.items()]
        assert len(theirs) == bool(monitors)
        assert all(monitor["spec"]["jobLabel"] == NAME_LABEL for monitor in theirs)
        partitions, replicas = partitions_of(pod), joiner.stateful_set["spec"]["replicas"]
        assert 1 <= replicas <= partitions
        owned = int(joiner.template["metadata"]["annotations"][JOINER_ANNOTATION])
        assert owned >= ceil(partitions / max(1, replicas - 1))
        resources = joiner.worker["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"]
        assert "cpu" not in resources["limits"]
        needed = joining_memory(config.join.max_outcomes, owned)
        assert 1.1 * needed <= bytes_of(resources["limits"]["memory"]) <= 1.67 * needed


def check_time(pod: Pod, _directory: Path) -> None:
    """A worker that drains is not killed: what it may take, and as much again as closing takes, is granted."""
    assert pod.spec["terminationGracePeriodSeconds"] >= SHORTENED_DEADLINE_S + SAVING_S + 2 * _CLOSE_S + 10
    # Otherwise a worker on a slow machine would be killed while it loads its kernels.
    startup = pod.worker["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60


def check_memory(pod: Pod, directory: Path) -> None:
    """Request and limit are equal, and a tenth to two thirds above what the configured models take."""
    resources = pod.worker["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert "cpu" not in resources["limits"]
    partitions = int(pod.template["metadata"]["annotations"][ANNOTATION])
    needed = memory_needed(loaded(pod, directory).learner.bits or 0, partitions)
    assert 1.1 * needed <= bytes_of(resources["limits"]["memory"]) <= 1.67 * needed


def partitions_of(pod: Pod) -> int:
    """How many partitions the topics get: from KafkaTopics, or from the command that makes them."""
    counts = {topic["spec"]["partitions"] for topic in all_of(pod.manifests, "KafkaTopic")}
    for container in pod.spec.get("initContainers", []):
        arguments = container["args"]
        counts.add(int(arguments[arguments.index("--partitions") + 1]))
    assert len(counts) <= 1, f"topics of different numbers of partitions: {counts}"
    return counts.pop() if counts else 4


def check_scale(pod: Pod, directory: Path) -> None:
    """No worker without a partition, none with more than its memory is for, and one at a time is disturbed.

    Where somebody scales down, workers leave the group as they stop; elsewhere a stopped worker comes back.
    """
    partitions = partitions_of(pod)
    scaled = all_of(pod.manifests, "ScaledObject")
    assert ("replicas" in pod.stateful_set["spec"]) == (not scaled)
    assert loaded(pod, directory).worker.on_stop == ("leave" if scaled else "stay")
    least = most = pod.stateful_set["spec"].get("replicas", 1)
    for one in scaled:
        assert one["spec"]["scaleTargetRef"]["kind"] == "StatefulSet"
        assert one["spec"]["scaleTargetRef"]["name"] == pod.stateful_set["metadata"]["name"]
        least, most = one["spec"]["minReplicaCount"], one["spec"]["maxReplicaCount"]
        down = one["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        assert down["stabilizationWindowSeconds"] >= 1800
        assert all(trigger["metadata"]["allowIdleConsumers"] == "false" for trigger in one["spec"]["triggers"])
    assert 1 <= least <= most <= partitions
    owned = ceil(partitions / max(1, least - 1))
    assert owned <= int(pod.template["metadata"]["annotations"][ANNOTATION])
    budget = only(pod.manifests, "PodDisruptionBudget")["spec"]
    assert budget.get("maxUnavailable") == 1
    assert "minAvailable" not in budget


def check_lag(pod: Pod, directory: Path) -> None:
    """KEDA asks the same cluster, as the same user, for the lag of this group on this topic."""
    config = loaded(pod, directory)
    secrets = {volume["secret"]["secretName"] for volume in pod.spec["volumes"] if "secret" in volume}
    for one in all_of(pod.manifests, "ScaledObject"):
        (trigger,) = one["spec"]["triggers"]
        metadata = trigger["metadata"]
        assert metadata["bootstrapServers"] == config.kafka["bootstrap.servers"]
        # A name without its namespace would be looked for in KEDA's.
        host = metadata["bootstrapServers"].partition(":")[0]
        assert host.endswith(f".{pod.stateful_set['metadata'].get('namespace')}.svc")
        assert metadata["consumerGroup"] == config.worker.group
        assert metadata["topic"] == config.topics.examples
        assert metadata["sasl"].replace("_", "-").replace("sha", "sha-") == str(config.kafka["sasl.mechanism"]).lower()
        login = only(pod.manifests, "TriggerAuthentication", trigger["authenticationRef"]["name"])["spec"]
        assert {secret["name"] for secret in login["secretTargetRef"]} == secrets
        assert {variable["name"] for variable in login["env"]} <= set(pod.environment())
        given = [one["parameter"] for one in (*login["env"], *login["secretTargetRef"])]
        assert sorted(given) == ["ca", "password", "username"]


def check_topics(pod: Pod, directory: Path) -> None:
    """The KafkaTopics have the settings that `stream-apple topics` gives, and can lose a broker."""
    found = {topic["metadata"]["name"]: topic["spec"] for topic in all_of(pod.manifests, "KafkaTopic")}
    if not found:
        return
    config = loaded(pod, directory)
    needs = NeededTopics.of(config)._replace(merging=False)
    assert set(found) == set(needs.names)
    made = needs.creation(RETENTION_MS)
    for name, needed in needs.requirements(made).items():
        assert found[name]["config"] == written(needed) | made[name] | {"min.insync.replicas": "2"}, name
        assert found[name]["replicas"] == 3


def check_permissions(pod: Pod, directory: Path) -> None:
    """The KafkaUsers may do what a worker and a joiner do, for their topics, group and ids, and no more."""
    config = loaded(pod, directory)
    seen, read, write = {"Describe", "DescribeConfigs"}, {"Read"}, {"Write"}
    topics, join = config.topics, config.join
    needed = {
        config.worker.group: {
            topics.examples: read | seen,
            topics.predictions: read | write | seen,
            topics.dead_letters: read | write | seen,
            topics.models: read | write | seen,
        },
        join.group: {
            join.impressions: read | seen,
            join.outcomes: read | write | seen,
            topics.examples: write | seen,
            join.dead_letters: write | seen,
        },
    }
    users = {user["metadata"]["name"]: user for user in all_of(pod.manifests, "KafkaUser")}
    assert users.keys() <= needed.keys()
    for process in (pod, *joiners(pod)):
        # Who logs in is somebody, with the password that Strimzi makes for him.
        login = process.environment().get("STREAM_APPLE_KAFKA__SASL_USERNAME")
        secrets = {volume["secret"]["secretName"] for volume in process.spec["volumes"] if "secret" in volume}
        assert login is None or login in secrets
        assert login is None or not users or login in users
    for group, user in users.items():
        granted = {
            (rule["resource"]["type"], rule["resource"]["name"], rule["resource"].get("patternType", "literal")): set(
                rule["operations"]
            )
            for rule in user["spec"]["authorization"]["acls"]
        }
        assert granted == {
            **{("topic", name, "literal"): operations for name, operations in needed[group].items()},
            ("group", group, "literal"): {"Read", "Describe"},
            ("transactionalId", f"{group}-", "prefix"): {"Write", "Describe"},
        }
    assert config.worker.transactional_id.startswith(f"{config.worker.group}-")


def check_hardening(pod: Pod, _directory: Path) -> None:
    """Every container of every pod runs unprivileged; those of our image as its user, with one place to write."""
    user = int(found.group(1)) if (found := re.search(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)) else None
    cache = found.group(1) if (found := re.search(r"NUMBA_CACHE_DIR=(/var\S+)", DOCKERFILE)) else None
    assert only(pod.manifests, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod.spec["serviceAccountName"] == only(pod.manifests, "ServiceAccount")["metadata"]["name"]
    for owner in (*all_of(pod.manifests, "StatefulSet"), *all_of(pod.manifests, "Deployment")):
        spec = owner["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            if not container["image"].rpartition("/")[2].startswith("stream-apple:"):
                continue
            assert spec["securityContext"]["runAsUser"] == user
            assert context["readOnlyRootFilesystem"] is True
            writable = [one["mountPath"] for one in container["volumeMounts"] if "emptyDir" in volumes[one["name"]]]
            assert writable == [cache]


def check_images(pod: Pod, _directory: Path) -> None:
    """Our image has the version of the package, and every other one a tag that is not `latest`."""
    version = re.search(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for owner in (*all_of(pod.manifests, "StatefulSet"), *all_of(pod.manifests, "Deployment")):
        spec = owner["spec"]["template"]["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            name, _, tag = container["image"].rpartition(":")
            assert name
            assert tag != "latest"
            if name.rpartition("/")[2] == "stream-apple":
                assert tag == version.group(1)


Check = Callable[[Pod, Path], None]
CHECKS: list[Check] = [
    check_configuration,
    check_secrets,
    check_ports,
    check_selectors,
    check_serving,
    check_joining,
    check_time,
    check_memory,
    check_scale,
    check_lag,
    check_topics,
    check_permissions,
    check_hardening,
    check_images,
]
