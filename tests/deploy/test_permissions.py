"""Topics and permissions of the Strimzi manifests on a real cluster: enough for a worker, and none too many."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
)
from deploy.acls import KINDS, bindings
from deploy.manifests import DEPLOY, render
from deploy.operator_schemas import Manifest
from deploy.worker_manifest import Pod, all_of
from support.command import run_command
from support.kafka.broker import Broker
from support.local_http import metric
from support.ports import free_ports
from support.topics import create_topics
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.preflight.cluster_check import check_cluster
from stream_apple.config import Config, load

SECONDS = 120
EXAMPLES = 400
IMPRESSIONS = 40
PARTITIONS = 4

_US, _OTHERS = "User:ANONYMOUS", "User:others"  # the broker under test has no passwords


class Cluster(NamedTuple):
    """A cluster with access control, on which we may do what the workers' KafkaUser may; and what joiners may."""

    config: Config
    environment: dict[str, str]
    client: AdminClient
    acls: list[Manifest]
    joiners: list[Manifest]

    def grant(self, acls: list[Manifest]) -> None:
        """Allow this."""
        for future in self.client.create_acls(bindings(acls, _US)).values():
            future.result(DEADLINE_S)

    def withdraw(self, acls: list[Manifest]) -> None:
        """Allow it no more."""
        filters = [
            AclBindingFilter(
                one.restype,
                one.name,
                one.resource_pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in bindings(acls, _US)
        ]
        for future in self.client.delete_acls(filters).values():
            assert future.result(DEADLINE_S)

    def faults(self) -> list[str]:
        """What `stream-apple check` has found wrong."""
        return [f"{found.subject}: {found.text}" for found in check_cluster(self.config) if found.verdict == "fault"]


def show(bootstrap: str, impressions: str, outcomes: str) -> None:
    """Impressions, one of them broken, and an outcome for the first."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(IMPRESSIONS):
        value = b'{"id": %d, "features": {"a": 1.0}}' % number if number else b"\xc1"
        producer.produce(impressions, value, partition=number % PARTITIONS)
    producer.produce(outcomes, b'{"id": 1, "label": 1}', partition=1)
    assert producer.flush(DEADLINE_S) == 0


@pytest.fixture(scope="module")
def cluster(kubectl: str, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Topics as in the manifests but for replicas, some examples in them, and then the user's permissions only."""
    pod = Pod.of(render(kubectl, DEPLOY / "overlays" / "production"))
    broker = Broker(
        tmp_path_factory.mktemp("broker"),
        jars,
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The broker's own requests come without a name too: what no rule speaks of must be allowed.
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    broker.start()
    try:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STREAM_APPLE_")},
            "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap,
            "STREAM_APPLE_WORKER__GROUP": pod.configuration(tmp_path_factory.mktemp("config")).worker.group,
            "STREAM_APPLE_WORKER__ID": pod.first_name,
            "STREAM_APPLE_LEARNER__LOSS": "logistic",
            "STREAM_APPLE_HTTP__PORT": str(free_ports(1)[0]),
        }
        client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        topics = [
            NewTopic(
                topic["metadata"]["name"],
                PARTITIONS,
                1,
                config={
                    name: value for name, value in topic["spec"]["config"].items() if name != "min.insync.replicas"
                },
            )
            for topic in all_of(pod.manifests, "KafkaTopic")
        ]
        create_topics(broker.bootstrap, *topics)
        filled = run_command("generate", "--limit", str(EXAMPLES), "--rate", "100000", environment=environment)
        assert filled.returncode == 0, filled.stderr
        join = load(None, {}).join
        show(broker.bootstrap, join.impressions, join.outcomes)
        settings = {name: value for name, value in environment.items() if name.startswith("STREAM_APPLE_")}
        users = {user["metadata"]["name"]: user for user in all_of(pod.manifests, "KafkaUser")}
        worker, joiner = (
            users[name]["spec"]["authorization"]["acls"] for name in ("stream-apple", "stream-apple-join")
        )
        found = Cluster(load(None, settings), environment, client, worker, joiner)
        # A rule for others on everything: from now on, what is not granted is refused.
        theirs = [
            AclBinding(kind, "*", ResourcePatternType.LITERAL, _OTHERS, "*", AclOperation.ALL, AclPermissionType.ALLOW)
            for kind in KINDS.values()
        ]
        for future in client.create_acls(theirs).values():
            future.result(DEADLINE_S)
        found.grant(found.acls)
        yield found
    finally:
        broker.kill()


def until(cluster: Cluster, *, faulty: bool) -> list[str]:
    """The faults, as soon as there are some, or none: the broker takes a moment to hear of a change."""
    found: list[str] = []

    def changed() -> bool:
        found[:] = cluster.faults()
        return bool(found) == faulty

    wait_until(changed, lambda: found, SECONDS)
    return found


def learned(cluster: Cluster) -> float:
    """How many examples the worker has learned, as far as it answers yet."""
    try:
        return sum(metric(cluster.config.http.port, "stream_apple_examples_total", outcome="learned"))
    except OSError:
        return 0.0


def test_check_finds_nothing_missing(cluster: Cluster) -> None:
    """On the manifests' topics, with the manifests' permissions, `stream-apple check` has no fault."""
    assert until(cluster, faulty=False) == []


def test_a_worker_works(cluster: Cluster) -> None:
    """It joins, learns all examples, commits, saves its models and leaves with 0, as this user."""
    until(cluster, faulty=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "stream_apple", "run"], env=cluster.environment, stderr=subprocess.PIPE, text=True
    )

    def all_learned() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return learned(cluster) >= EXAMPLES

    try:
        wait_until(all_learned, f"{EXAMPLES} learned examples", SECONDS, pause_s=0.1)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=SECONDS)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert said.count('"snapshot_written"') == PARTITIONS
    # What it says it has written can be found and restored by a successor.
    assert cluster.faults() == []


def test_a_joiner_works(cluster: Cluster) -> None:
    """As the user of joiners it makes examples of impressions, refuses what is broken, and leaves with 0."""
    cluster.withdraw(cluster.acls)
    cluster.grant(cluster.joiners)
    environment = cluster.environment | {
        "STREAM_APPLE_JOIN__WAIT": "1s",
        "STREAM_APPLE_JOIN__TOLERANCE": "100ms",
        "STREAM_APPLE_JOIN__DEFAULT_LABEL": "0",
        "STREAM_APPLE_WORKER__ID": "stream-apple-join-0",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "stream_apple", "join"], env=environment, stderr=subprocess.PIPE, text=True
    )

    def all_joined() -> bool:
        assert process.poll() is None, process.communicate()[1]
        try:
            return sum(metric(cluster.config.http.port, "stream_apple_join_impressions_total")) >= IMPRESSIONS
        except OSError:
            return False

    try:
        wait_until(all_joined, f"{IMPRESSIONS} joined impressions", SECONDS, pause_s=0.1)
        assert sum(metric(cluster.config.http.port, "stream_apple_dead_letters_total")) == 1
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=SECONDS)[1]
    finally:
        process.kill()
        process.wait()
        cluster.withdraw(cluster.joiners)
        cluster.grant(cluster.acls)
    assert process.returncode == 0, said


@pytest.mark.parametrize("number", range(6))
def test_every_permission_is_needed(cluster: Cluster, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of the rules, `check` finds what is refused; given back, all is well again."""
    # For offsets that it may not see the client asks until its time is up.
    monkeypatch.setattr("stream_apple.adapters.kafka.preflight.recovery_check.REQUEST_S", 3.0)
    assert len(cluster.acls) == 6
    rule = cluster.acls[number]
    cluster.withdraw([rule])
    try:
        found = until(cluster, faulty=True)
    finally:
        cluster.grant([rule])
    assert any(rule["resource"]["name"] in fault for fault in found)
    until(cluster, faulty=False)
