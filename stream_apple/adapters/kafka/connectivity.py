"""Whether the brokers can be reached, as far as that is known while there is nothing to do, and if not, why.

A call that gets no answer times out, whatever the reason. librdkafka reports the reason on the side, to an error
callback that is served only while its client is polled. Whether authentication fails is therefore found out by a
client that is made for that question.

A broker that is frozen, or cut off, is reported by nobody: connections stay, and requests wait for a minute. But while
all is well brokers are never silent, however quiet the stream is: a member's heartbeats are answered every three
seconds. When something last came from any of them is in librdkafka's statistics, which cost a record nothing.

The statistics also tell when a client knows no broker any more. One that comes back may name no broker for a moment,
itself included; librdkafka then forgets it, and with it the last address that it has (its issue 5301). Such a client
never reaches anybody again, and its process must end.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.kafka.admin import SILENT, Cluster, timeout_faults
from stream_apple.adapters.kafka.client_properties import Properties
from stream_apple.adapters.kafka.errors import RefusedTimeoutError
from stream_apple.errors import BrokerError, ConfigurationError

OUTAGE_S = 300.0
"""How long a worker without an open transaction waits for its brokers: by then a supervisor, and whoever it wakes,
should know. With one open, its calls end before: `retry.DEADLINE_S`."""
ASK_AFTER_S = 6.0
"""Two heartbeats without an answer. A member that waits for others to join has none, and is answered when it asks."""
FORGOTTEN_S = 5.0
"""How long a client may know no broker: by then none will be named any more."""
PROBE_INTERVAL_S = 3.0
PROBE_TIMEOUT_S = 0.5

_ADDRESSED = {"configured", "learned"}
_DIAGNOSIS_S = 3.0
_POLL_S = 0.05

# What a broker says when it does not accept this client's certificate, or that there is none.
_TLS_ALERT = re.compile(r"SSL routines:.*\balert\b")
# A TLS handshake that ends without a reason is that of a broker that is going away, or of a listener without TLS.
_HUNG_UP = "Disconnected"

_log = structlog.get_logger()


class Connectivity:
    """Turns librdkafka's reports into one log line when all brokers are gone and one when they are back.

    properties  librdkafka's
    probe       whether a broker answers, within PROBE_TIMEOUT_S
    limit_s     how long no broker may answer

    A report alone proves nothing: librdkafka makes one for idle connections that a broker has closed as well. Nor does
    silence, which counts from the first `check` on. In doubt, a broker is asked.
    """

    def __init__(
        self,
        properties: Properties,
        probe: Callable[[], bool],
        limit_s: float = OUTAGE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._properties = properties
        self._address = str(properties["bootstrap.servers"])
        self._probe = probe
        self._limit_s = limit_s
        self._now = now
        self._heard_at: float | None = None
        self._forgotten_since: float | None = None
        self._suspicion: str | None = None
        self._silent_since: float | None = None
        self._next_probe = 0.0

    @property
    def reachable(self) -> bool:
        """False from the first probe without an answer until the next answer."""
        return self._silent_since is None

    def suspect(self, reason: str) -> None:
        """Note that librdkafka reports to reach no broker, and why. Does not block."""
        self._suspicion = reason

    def learn(self, statistics: str) -> None:
        """Take note of what librdkafka's statistics, JSON, tell of the brokers. Does not block."""
        facts = json.loads(statistics)
        self.hear(latest_answer(facts))
        if knows_brokers(facts):
            self._forgotten_since = None
        elif self._forgotten_since is None:
            self._forgotten_since = self._now()

    def hear(self, at: float | None) -> None:
        """Something came from a broker `at` that time of `now`, or nothing ever. Does not block."""
        if at is not None and (self._heard_at is None or at > self._heard_at):
            self._heard_at = at

    def check(self) -> None:
        """Ask a broker now and then while there is doubt; BrokerError if none has answered for the limit.

        BrokerError also if the client knows no broker any more.
        """
        if self._forgotten_since is not None and self._now() - self._forgotten_since >= FORGOTTEN_S:
            raise BrokerError(
                f"kafka: expected the client to know a broker of {self._address}, found that it has forgotten all, as "
                f"librdkafka does when one that is just coming back names none (its issue 5301): only a new process "
                f"finds them again"
            )
        if self._heard_at is None:
            self._heard_at = self._now()
        silent_s = self._now() - self._heard_at
        if self._suspicion is None and silent_s >= ASK_AFTER_S:
            self._suspicion = f"nothing has come from any broker for {silent_s:.0f} s"
        if self._suspicion is None or self._now() < self._next_probe:
            return
        asked = self._now()
        answered = self._probe()
        self._next_probe = self._now() + PROBE_INTERVAL_S
        if answered:
            self.confirm()
            return
        if self._silent_since is None:
            self._silent_since = asked
            _log.warning("brokers_unreachable", address=self._address, error=self._suspicion)
        silent_s = self._now() - self._silent_since
        if silent_s >= self._limit_s:
            raise BrokerError(
                f"kafka: expected an answer from {self._address} within {self._limit_s:g} s, "
                f"found none for {silent_s:.0f} s: {self._suspicion}"
            )

    def confirm(self) -> None:
        """Take note that a broker has answered."""
        self.hear(self._now())
        if self._suspicion is None:
            return
        if self._silent_since is not None:
            _log.info("brokers_reachable", address=self._address, seconds=round(self._now() - self._silent_since, 1))
        self._suspicion = self._silent_since = None
        self._next_probe = 0.0

    def diagnose(self) -> None:
        """Find out why a call got no answer; ConfigurationError if authentication fails: waiting would not help."""
        error = connection_error(self._properties)
        if error is None:
            return
        if is_authentication_error(error):
            raise ConfigurationError(
                f"kafka: expected {self._address} and this worker to accept each other, "
                f"found: {error.str()}; see security.protocol, sasl.* and ssl.* in [kafka]"
            )
        self.suspect(error.str())
        self.check()

    def explained(self, error: RefusedTimeoutError) -> ConfigurationError:
        """The error with what the brokers accept in place of their refusal, as far as they tell it."""
        try:
            faults = timeout_faults(Cluster(self._properties))
        except (BrokerError, ConfigurationError) as untold:
            return ConfigurationError(
                f"{error}: see session.timeout.ms and transaction.timeout.ms in [kafka]; the bounds are the brokers' "
                f"group.min.session.timeout.ms, group.max.session.timeout.ms and transaction.max.timeout.ms ({untold})"
            )
        return ConfigurationError("; ".join([*faults, str(error)]))


def latest_answer(facts: Mapping[str, Any]) -> float | None:
    """When something last came from any broker, in seconds of the monotonic clock; None if nothing ever did.

    facts  librdkafka's statistics; their clock is the one of `time.monotonic` on Linux
    """
    idle_us = [broker["rxidle"] for broker in facts["brokers"].values() if broker["rxidle"] >= 0]
    return (facts["ts"] - min(idle_us)) / 1e6 if idle_us else None


def knows_brokers(facts: Mapping[str, Any]) -> bool:
    """Whether a client has the address of any broker, by its statistics."""
    return any(broker["source"] in _ADDRESSED for broker in facts["brokers"].values())


def connection_error(properties: Properties) -> KafkaError | None:
    """The first error that a new client reports within three seconds, an authentication error before others."""
    reported: list[KafkaError] = []
    settings: dict[str, Any] = {**properties, "error_cb": reported.append, "logger": SILENT}
    client = AdminClient(settings)
    deadline = time.monotonic() + _DIAGNOSIS_S
    while time.monotonic() < deadline:
        client.poll(_POLL_S)
        refusals = [error for error in reported if is_authentication_error(error)]
        if refusals:
            return refusals[0]
    return reported[0] if reported else None


def is_authentication_error(error: KafkaError) -> bool:
    """Whether a password, a token or a certificate is not accepted, by either side."""
    text = error.str()
    return (
        error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001  librdkafka's own codes begin so
        or (error.code() == KafkaError._SSL and _HUNG_UP not in text)  # noqa: SLF001
        or bool(_TLS_ALERT.search(text))
    )
