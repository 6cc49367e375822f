"""Which group protocol lets the successor of a dead worker go on at once: why `client_properties` has the classic one.

Both members are static: they have the same `group.instance.id`, as a pod of a StatefulSet has after its restart.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.kafka.broker import IS_KAFKA_3, Broker
from support.topics import create_topics
from support.waiting import wait_until

SESSION_S = 20.0
AT_ONCE_S = SESSION_S / 2  # on an idle machine a tenth of it; no session has ended by then
DEADLINE_S = 90.0

MEMBER = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe(["examples"])
while not consumer.assignment():
    consumer.poll(0.1)
print("assigned", flush=True)
while True:
    consumer.poll(0.1)
"""


@pytest.fixture(scope="module")
def bootstrap(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose sessions are as short under the new protocol, where it decides, as under the old one."""
    session = {
        "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
        "group.consumer.min.session.timeout.ms": str(int(SESSION_S * 1000)),
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    broker = Broker(tmp_path_factory.mktemp("kafka"), jars, session)
    broker.start()
    try:
        create_topics(broker.bootstrap, NewTopic("examples", 2, 1))
        yield broker.bootstrap
    finally:
        broker.kill()


def member(bootstrap: str, protocol: str) -> dict[str, str | int]:
    """Properties of worker-0 in a group of its own."""
    own: dict[str, str | int] = {"session.timeout.ms": int(SESSION_S * 1000)} if protocol == "classic" else {}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{protocol}",
        "group.instance.id": "worker-0",
        "group.protocol": protocol,
        "log_level": 0,
        **own,
    }


def killed_member(properties: dict[str, str | int]) -> float:
    """Join in a process of its own and die there without leaving; the time of death."""
    process = subprocess.Popen([sys.executable, "-c", MEMBER, json.dumps(properties)], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"assigned\n"
        process.kill()
    return time.monotonic()


def outcome(properties: dict[str, str | int]) -> str:
    """How one attempt to join ends: `assigned`, or what makes the client useless."""
    consumer = Consumer(properties)
    consumer.subscribe(["examples"])

    def ended() -> str:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            return error.str()
        return "assigned" if len(consumer.assignment()) == 2 else ""

    try:
        return wait_until(ended, "an end of the attempt", DEADLINE_S)
    finally:
        consumer.close()


def test_classic_the_successor_owns_the_partitions_at_once(bootstrap: str) -> None:
    """Long before the dead member's session ends."""
    properties = member(bootstrap, "classic")
    died = killed_member(properties)
    assert outcome(properties) == "assigned"
    assert time.monotonic() - died < AT_ONCE_S


@pytest.mark.skipif(IS_KAFKA_3, reason="brokers of Kafka 3 do not offer this protocol by default")
def test_kip_848_the_successor_is_refused_until_the_session_ends(bootstrap: str) -> None:
    """Each attempt ends with a fatal error, so that a restarted worker would die again and again."""
    properties = member(bootstrap, "consumer")
    died = killed_member(properties)
    ends: list[str] = []
    while not ends or ends[-1] != "assigned":
        assert time.monotonic() - died < DEADLINE_S
        ends.append(outcome(properties))
        time.sleep(0.5)  # refused at once, it would ask a hundred times
    assert len(ends) > 1
    assert all("instance ID is still used by another member" in end for end in ends[:-1])
    assert time.monotonic() - died > AT_ONCE_S
