"""KEDA, built from its Go module, does with the number of workers what the manifests say, by the lag of a real group.

Kafka lets it in as the manifests have it: by TLS and SCRAM, with the permissions of the workers' KafkaUser. There is no
controller of autoscalers: what that would ask of KEDA is asked here.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from deploy.acls import bindings
from deploy.manifests import DEPLOY, render
from deploy.operator_schemas import Manifest
from deploy.proof.apiserver import ApiServer
from deploy.proof.keda import ADAPTER, OPERATOR, Keda
from deploy.proof.record import AUTOSCALER
from deploy.worker_manifest import only
from security.secure_broker import PASSWORDS, Secured, secured
from support.required import UnavailableError, unavailable
from support.waiting import DEADLINE_S, wait_until

SUBJECT = AUTOSCALER
PARTITIONS = 12
RECORDS = 40  # of each partition, in ten transactions
LEARNED = 7  # of the first half of the partitions; the group has no offset of the others
_SPACE = "--namespace=kafka"
_PASSWORD = "keda-Pw-3hTn8"  # of a broker that lives as long as the test
_SECONDS = 180

Properties = dict[str, str | int | float | bool]

pytestmark = pytest.mark.timeout(3600)


class Group(NamedTuple):
    """A group on a secured cluster, and by how many offsets it is behind."""

    cluster: Secured
    lag: int


@pytest.fixture(scope="module")
def manifests(kubectl: str) -> list[Manifest]:
    """Of the overlay that has the autoscaler."""
    return render(kubectl, DEPLOY / "overlays" / "production")


@pytest.fixture(scope="module")
def group(manifests: list[Manifest], jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Examples in transactions, and what the group has noted of them; the KafkaUser with its permissions."""
    with secured(tmp_path_factory.mktemp("kafka"), jars) as cluster:
        administrator: Properties = {
            "bootstrap.servers": cluster.password,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(cluster.authority.certificate),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "worker",
            "sasl.password": PASSWORDS["SCRAM-SHA-512"],
        }
        scaled = only(manifests, "ScaledObject")["spec"]["triggers"][0]["metadata"]
        _let_in(AdminClient(administrator), only(manifests, "KafkaUser"), scaled["topic"])
        yield Group(cluster, _fall_behind(administrator, scaled["topic"], scaled["consumerGroup"]))


def _let_in(client: AdminClient, user: Manifest, topic: str) -> None:
    name = user["metadata"]["name"]
    credentials = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(name, credentials, _PASSWORD.encode())
    rules = bindings(user["spec"]["authorization"]["acls"], f"User:{name}")
    for futures in (
        client.alter_user_scram_credentials([wanted]),
        client.create_acls(rules),
        client.create_topics([NewTopic(topic, PARTITIONS, 1)]),
    ):
        for future in futures.values():
            future.result(DEADLINE_S)


def _fall_behind(administrator: Properties, topic: str, group: str) -> int:
    producer = Producer({**administrator, "transactional.id": "upstream"})
    producer.init_transactions(DEADLINE_S)
    for _ in range(10):
        producer.begin_transaction()
        for number in range(RECORDS * PARTITIONS // 10):
            producer.produce(topic, b"an example", partition=number % PARTITIONS)
        producer.commit_transaction(DEADLINE_S)
    consumer = Consumer({**administrator, "group.id": group})
    learned = [TopicPartition(topic, number, LEARNED) for number in range(PARTITIONS // 2)]
    consumer.commit(offsets=learned, asynchronous=False)
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=DEADLINE_S)[1]
        for number in range(PARTITIONS)
    ]
    consumer.close()
    assert sum(ends) == PARTITIONS * (RECORDS + 10)  # each transaction leaves a marker
    return sum(ends) - LEARNED * (PARTITIONS // 2)


@pytest.fixture(scope="module")
def keda(
    cluster: ApiServer, group: Group, manifests: list[Manifest], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Keda]:
    """KEDA, and the manifests applied but for the broker's address, with the secrets that Strimzi would make."""
    try:
        definitions = OPERATOR.source() / "config" / "crd" / "bases"
        for program in (OPERATOR, ADAPTER):
            program.resolve()
    except UnavailableError as error:
        unavailable(str(error))
    for file in sorted(definitions.glob("*.yaml")):
        cluster.create(yaml.safe_load(file.read_text(encoding="utf-8")))
    for space in ("kafka", "keda"):
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    cluster.define(manifests)
    authority = group.cluster.authority.certificate.read_bytes()
    for name, key, value in (
        ("stream-apple", "password", _PASSWORD.encode()),
        ("kafka-cluster-ca-cert", "ca.crt", authority),
    ):
        secret = {"metadata": {"name": name, "namespace": "kafka"}, "data": {key: base64.b64encode(value).decode()}}
        cluster.create({"apiVersion": "v1", "kind": "Secret", **secret})
    for manifest in manifests:
        if manifest["kind"] == "ScaledObject":
            manifest["spec"]["triggers"][0]["metadata"]["bootstrapServers"] = group.cluster.password
        cluster.create(manifest)
    with Keda(cluster, group.cluster.authority, tmp_path_factory.mktemp("keda")) as running:
        yield running


def conditions(cluster: ApiServer, name: str) -> dict[str, str]:
    """What KEDA says of the scaled object, by the condition."""
    status = cluster.get("scaledobject.keda.sh", name, _SPACE).get("status", {})
    return {one["type"]: one["status"] for one in status.get("conditions", [])}


def test_it_is_the_lag_that_decides(keda: Keda, group: Group, manifests: list[Manifest]) -> None:
    """KEDA gets in, sees the group behind, and tells how far: to the last offset, with the markers of transactions."""
    name = only(manifests, "ScaledObject")["metadata"]["name"]
    wanted = {"Ready": "True", "Active": "True"}
    wait_until(
        lambda: wanted.items() <= conditions(keda.cluster, name).items(),
        lambda: str(conditions(keda.cluster, name)),
        _SECONDS,
        pause_s=1,
    )
    (asked,) = keda.cluster.get("hpa", f"keda-hpa-{name}", _SPACE)["spec"]["metrics"]
    assert keda.metric(asked["external"]["metric"]["name"], name) == group.lag


def test_an_autoscaler_is_made_as_the_manifest_says(keda: Keda, manifests: list[Manifest]) -> None:
    """Of the set of workers, within the bounds, with the pace, and with a share of the lag for each worker."""
    manifest = only(manifests, "ScaledObject")
    scaled, trigger = manifest["spec"], manifest["spec"]["triggers"][0]["metadata"]
    found = keda.cluster.get("hpa", f"keda-hpa-{manifest['metadata']['name']}", _SPACE)["spec"]
    assert (found["minReplicas"], found["maxReplicas"]) == (scaled["minReplicaCount"], scaled["maxReplicaCount"])
    assert found["scaleTargetRef"]["kind"] == "StatefulSet"
    assert found["scaleTargetRef"]["name"] == only(manifests, "StatefulSet")["metadata"]["name"]
    (asked,) = found["metrics"]
    target = asked["external"]["target"]
    assert (target["type"], target["averageValue"]) == ("AverageValue", f"{int(trigger['lagThreshold']) // 1000}k")
    wanted = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    for direction, rule in wanted.items():
        assert rule.items() <= found["behavior"][direction].items()
