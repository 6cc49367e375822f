"""Whether the brokers can be reached, also while no call needs them, and if not, why.

A call that gets no answer times out, whatever the reason. librdkafka reports the reason to an error callback, which is
served only while its client is polled. So a client of its own finds out whether authentication fails.

librdkafka does not report a broker that is frozen or cut off: connections stay, and requests wait for a minute. But
brokers that work are never silent, even on a quiet stream, as they answer a member's heartbeats every three seconds.
librdkafka's statistics, which cost nothing per record, say when something last came from any broker.

The statistics also show that a client knows no broker any more. A broker that comes back may for a moment name no
broker, not even itself; librdkafka then forgets all of them, with the last address (its issue 5301). Such a client
never reaches a broker again, and its process must end.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.kafka.admin import SILENT, Cluster, timeout_faults
from stream_apple.adapters.kafka.client_properties import Properties
from stream_apple.adapters.kafka.errors import RefusedTimeoutError
from stream_apple.errors import BrokerError, ConfigurationError

OUTAGE_S = 300.0
"""How long a worker waits for its brokers; then it ends, so that a supervisor notices."""
ASK_AFTER_S = 6.0
"""Silence after which a broker is asked: two heartbeats. It may be innocent, as in a rebalance there are none."""
FORGOTTEN_S = 5.0
"""How long a client may know no broker; after that none comes back."""
PROBE_INTERVAL_S = 3.0
PROBE_TIMEOUT_S = 0.5

_ADDRESSED = {"configured", "learned"}
_DIAGNOSIS_S = 3.0
_POLL_S = 0.05

# A broker that does not accept this client's certificate, or misses one, answers with an alert.
_TLS_ALERT = re.compile(r"SSL routines:.*\balert\b")
# A TLS handshake that ends without a reason is that of a broker that is going away, or of a listener without TLS.
_HUNG_UP = "Disconnected"

_log = structlog.get_logger()


class OutageLog:
    """Logs when no broker answers any more, and when one does again.

    since  seconds of the clock from which on none has answered; None: one has
    """

    def __init__(self, properties: Properties, now: Callable[[], float] = time.monotonic) -> None:
        self.since: float | None = None
        self._address = str(properties["bootstrap.servers"])
        self._now = now

    def unanswered(self, since: float, error: str) -> float:
        """Note that no broker has answered since then; return for how many seconds none has."""
        if self.since is None:
            self.since = since
            _log.warning("brokers_unreachable", address=self._address, error=error)
        return self._now() - self.since

    def answered(self) -> None:
        """Note that a broker has answered."""
        if self.since is not None:
            _log.info("brokers_reachable", address=self._address, seconds=round(self._now() - self.since, 1))
            self.since = None


class Connectivity:
    """Turns librdkafka's reports into one log line when all brokers are gone and one when they are back.

    properties  librdkafka's
    probe       returns whether a broker answers, within PROBE_TIMEOUT_S
    limit_s     seconds for which no broker may answer

    A report alone proves nothing: librdkafka also makes one when a broker has closed idle connections. Silence, which
    counts from the first `check` on, proves nothing either. So after either of them a broker is asked.
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
        self._outage = OutageLog(properties, now)
        self._next_probe = 0.0

    @property
    def reachable(self) -> bool:
        """Whether brokers answer: False from the first probe without an answer until the next answer."""
        return self._outage.since is None

    def suspect(self, reason: str) -> None:
        """Note that librdkafka reports that it reaches no broker, and why. This does not block."""
        self._suspicion = reason

    def learn(self, statistics: str) -> None:
        """Note what librdkafka's statistics, given as JSON, say about the brokers. This does not block."""
        facts = json.loads(statistics)
        self.hear(latest_answer(facts))
        if knows_brokers(facts):
            self._forgotten_since = None
        elif self._forgotten_since is None:
            self._forgotten_since = self._now()

    def hear(self, at: float | None) -> None:
        """Note that something came from a broker `at` that time of the clock; None: nothing ever came."""
        if at is not None and (self._heard_at is None or at > self._heard_at):
            self._heard_at = at

    def check(self) -> None:
        """Ask a broker now and then while there is doubt.

        BrokerError if none has answered for `limit_s`, or if the client knows no broker any more.
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
        silent_s = self._outage.unanswered(asked, self._suspicion)
        if silent_s >= self._limit_s:
            raise BrokerError(
                f"kafka: expected an answer from {self._address} within {self._limit_s:g} s, "
                f"found none for {silent_s:.0f} s: {self._suspicion}"
            )

    def confirm(self) -> None:
        """Note that a broker has answered."""
        self.hear(self._now())
        if self._suspicion is not None:
            self._outage.answered()
            self._suspicion = None
            self._next_probe = 0.0

    def diagnose(self) -> None:
        """Find out why a call got no answer.

        ConfigurationError if authentication fails, as waiting would not help; BrokerError as of `check`, and before the
        first `check` if no address that brokers advertise can be reached.
        """
        error = connection_error(self._properties)
        if error is None:
            return
        if is_authentication_error(error):
            raise ConfigurationError(
                f"kafka: expected {self._address} and this worker to accept each other, "
                f"found: {error.str()}; see security.protocol, sasl.* and ssl.* in [kafka]"
            )
        if self._heard_at is None:
            self._refuse_unreachable()
        self.suspect(error.str())
        self.check()

    def _refuse_unreachable(self) -> None:
        cluster: Cluster | None = None
        with suppress(BrokerError):
            cluster = Cluster(self._properties)
        if cluster is not None:
            cluster.refuse_unreachable()

    def explained(self, error: RefusedTimeoutError) -> ConfigurationError:
        """Return the error with the bounds that the brokers accept, as far as they tell them."""
        try:
            faults = timeout_faults(Cluster(self._properties))
        except (BrokerError, ConfigurationError) as untold:
            return ConfigurationError(
                f"{error}: see session.timeout.ms and transaction.timeout.ms in [kafka]; the bounds are the brokers' "
                f"group.min.session.timeout.ms, group.max.session.timeout.ms and transaction.max.timeout.ms ({untold})"
            )
        return ConfigurationError("; ".join([*faults, str(error)]))


def latest_answer(facts: Mapping[str, Any]) -> float | None:
    """Return when something last came from any broker, in seconds of the monotonic clock; None if nothing ever did.

    facts  librdkafka's statistics; their clock is the one of `time.monotonic` on Linux
    """
    idle_us = [broker["rxidle"] for broker in facts["brokers"].values() if broker["rxidle"] >= 0]
    return (facts["ts"] - min(idle_us)) / 1e6 if idle_us else None


def knows_brokers(facts: Mapping[str, Any]) -> bool:
    """Whether a client has the address of any broker, by its statistics."""
    return any(broker["source"] in _ADDRESSED for broker in facts["brokers"].values())


def connection_error(properties: Properties) -> KafkaError | None:
    """Return the first error that a new client reports within three seconds, but any authentication error first."""
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
    """Whether the error says that one side does not accept the other's password, token or certificate."""
    text = error.str()
    return (
        error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001  librdkafka's own codes begin so
        or (error.code() == KafkaError._SSL and _HUNG_UP not in text)  # noqa: SLF001
        or bool(_TLS_ALERT.search(text))
    )
