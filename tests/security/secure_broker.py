"""A broker that lets in whom it knows: TLS on every listener but its own, and each way to prove who one is."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from security.authority import Authority, Client
from support.kafka.broker import Broker
from support.ports import free_ports
from support.waiting import wait_until

PASSWORDS = {
    "PLAIN": "plain-Pw-7ghQ2x",
    "SCRAM-SHA-256": 'scram256-Pw "qu/ot\\ed" Zk41',
    "SCRAM-SHA-512": "scram512-Pw@Xv82//m",
}
"""Of the user `worker`, for each mechanism; with what is awkward in JSON, in addresses and in expressions."""
STRANGER = "stranger-Pw-55Lmq"
"""Of a user whom the broker knows and allows nothing."""
PASSPHRASE = "passphrase-8dWw1z"
"""Of the client's key."""

_SCRAM: dict[str, ScramMechanism] = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_SECONDS = 60
_MODULES = "org.apache.kafka.common.security"


class Secured(NamedTuple):
    """A running broker: the address of each listener, and whom it trusts."""

    password: str
    token: str
    mutual: str
    authority: Authority
    client: Client


@contextmanager
def secured(directory: Path, jars: Path) -> Iterator[Secured]:
    """The broker, until the end of the context."""
    authority = Authority(directory / "authority")
    ports = dict(zip(("PASSWORD", "TOKEN", "MUTUAL"), free_ports(3), strict=True))
    broker = Broker(directory / "broker", jars, _properties(authority, ports))
    broker.start()
    try:
        _add_users(broker.bootstrap)
        _await_coordinator(broker.bootstrap)
        addresses = {name.lower(): f"127.0.0.1:{port}" for name, port in ports.items()}
        yield Secured(**addresses, authority=authority, client=authority.client("worker", PASSPHRASE))
    finally:
        broker.kill()


def _properties(authority: Authority, ports: dict[str, int]) -> dict[str, str]:
    protocols = {"PASSWORD": "SASL_SSL", "TOKEN": "SASL_SSL", "MUTUAL": "SSL"}
    plain = {"worker": PASSWORDS["PLAIN"], "stranger": STRANGER}
    users = " ".join(f"user_{name}={json.dumps(password)}" for name, password in plain.items())
    return {
        "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
        + ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.password.sasl.enabled.mechanisms": ",".join(PASSWORDS),
        "listener.name.password.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
        **{
            f"listener.name.password.{mechanism.lower()}.sasl.jaas.config": (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
            for mechanism in _SCRAM
        },
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.token.oauthbearer.sasl.jaas.config": (
            f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:worker;User:CN=worker",
    }


def _await_coordinator(bootstrap: str) -> None:
    """The first question for a group makes the topic of offsets, and is refused until that is there."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})

    def answers() -> bool:
        try:
            return bool(client.committed([TopicPartition("none", 0)], timeout=5))
        except KafkaException:
            return False

    wait_until(answers, "a coordinator of groups", _SECONDS)
    client.close()


def _add_users(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    for name, mechanism in _SCRAM.items():
        # One request may hold a user once only.
        wanted = UserScramCredentialUpsertion("worker", ScramCredentialInfo(mechanism, 4096), PASSWORDS[name].encode())
        for future in client.alter_user_scram_credentials([wanted]).values():
            future.result(_SECONDS)
