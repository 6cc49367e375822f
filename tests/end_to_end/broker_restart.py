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
from support.kafka.broker import Broker
from support.topics import read_to_end
from support.waiting import DEADLINE_S, wait_until
from support.worker_process import WorkerProcess

_STATES = "__transaction_state"
_STATUS = 16  # the byte of a transaction's state, after version, producer id, epoch and timeout
_UNDECIDED = {2, 3}  # PrepareCommit and PrepareAbort
_LOOK_S = 0.3  # what was sent before the workers fell asleep is read by the broker meanwhile


def restart_between_decisions(broker: Broker, workers: Iterable[WorkerProcess], *, kill: bool) -> None:
    """Kill or stop the broker while its workers sleep, wake them without one, and start it again."""
    awake = [worker for worker in workers if worker.running and not worker.asleep]
    for worker in awake:
        worker.sleep()
    try:
        _await_decisions(broker.bootstrap)
        if kill:
            broker.kill()
        else:
            broker.stop()
    finally:
        for worker in awake:
            worker.wake()
    broker.start()


def _await_decisions(bootstrap: str) -> None:
    undecided: list[bytes] = []

    def decided() -> bool:
        time.sleep(_LOOK_S)
        undecided[:] = _undecided(bootstrap)
        return not undecided

    wait_until(lambda: decided() and decided(), lambda: f"decisions on {undecided}")


def _undecided(bootstrap: str) -> list[bytes]:
    """Transactional ids whose outcome is known but not yet in the logs of all partitions."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics(_STATES, timeout=DEADLINE_S).topics[_STATES]
    found = read_to_end(bootstrap, _STATES, len(topic.partitions))
    latest = {message.key() or b"": message.value() for messages in found.values() for message in messages}
    return [key for key, state in latest.items() if state and state[_STATUS] in _UNDECIDED]
