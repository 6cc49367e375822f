"""When a lone broker may die: in a transaction or between two, but not while one is being decided.

Kafka 4.3.1 takes a partition that has no leader for one that was deleted, and leaves out the markers of a transaction
there. When the only broker of a cluster comes back, its transaction coordinator works before its partitions have a
leader: what was being decided counts as complete, but partitions whose markers had not been written never get them.
Then predictions are committed and their offsets are not, or the group's offsets stay undecided for ever. A client can't
mend that, and with replicas on other brokers it does not come to it.
"""

import time
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient
from end_to_end.worker_process import Life, committed_messages
from kafka_broker import Broker

_STATES = "__transaction_state"
_STATUS = 16  # the byte of a transaction's state, after version, producer id, epoch and timeout
_UNDECIDED = {2, 3}  # PrepareCommit and PrepareAbort
_DEADLINE_S = 60.0
_LOOK_S = 0.3  # what was sent before the workers fell asleep is read by the broker meanwhile


def restart_between_decisions(broker: Broker, lives: Iterable[Life], *, kill: bool) -> None:
    """Kill or stop the broker while its workers sleep, wake them without one, and start it again."""
    awake = [life for life in lives if life.running and not life.asleep]
    for life in awake:
        life.sleep()
    try:
        _await_decisions(broker.bootstrap)
        if kill:
            broker.kill()
        else:
            broker.stop()
    finally:
        for life in awake:
            life.wake()
    broker.start()


def _await_decisions(bootstrap: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    calm = 0
    while calm < 2:
        time.sleep(_LOOK_S)
        undecided = _undecided(bootstrap)
        calm = 0 if undecided else calm + 1
        assert time.monotonic() < deadline, f"undecided after {_DEADLINE_S:g} s: {undecided}"


def _undecided(bootstrap: str) -> list[bytes]:
    """Transactional ids whose outcome is known but not yet in the logs of all partitions."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(_STATES, timeout=10).topics[_STATES]
    found = committed_messages(bootstrap, _STATES, len(topic.partitions))
    latest = {message.key() or b"": message.value() for messages in found.values() for message in messages}
    return [key for key, state in latest.items() if state and state[_STATUS] in _UNDECIDED]
