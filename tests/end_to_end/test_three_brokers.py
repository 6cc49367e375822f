"""Whatever happens to brokers and to the paths to them: no worker exits, and answers go on soon after the fail-over.

Workers are killed meanwhile. Each test ends with `verify` and with the independent checker: see `Accident`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end.accident import ALLOWANCE_S, NAMES, Accident, make_coordinators
from support.kafka.cluster import SIZE, Cluster
from support.kafka.proxy import ANY, Harm

pytestmark = pytest.mark.timeout(900)
FROZEN_S = 30.0
CUT_OFF_S = 60.0
LATE_COMMIT_S = 6.0  # ten requests, one after the other
LATE_START_S = 35.0  # some 50 requests, one after the other, until a worker answers, while a new producer is made
ALWAYS = float("inf")
IN_TRANSACTIONS = [
    "AddPartitionsToTxn",
    "Produce",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn commit",
    "EndTxn abort",
]


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers that all tests here share; each test mends them first."""
    with Cluster(tmp_path_factory.mktemp("cluster"), jars) as made:
        make_coordinators(made)
        yield made


@pytest.fixture
def accident(cluster: Cluster, tmp_path: Path) -> Iterator[Accident]:
    """Two workers at work."""
    with Accident(cluster, tmp_path) as begun:
        yield begun


@pytest.mark.parametrize(
    "request_name",
    [
        "AddOffsetsToTxn",  # librdkafka's call never returns after it
        *(pytest.param(name, marks=pytest.mark.long) for name in ("TxnOffsetCommit", "EndTxn commit", "Produce")),
    ],
)
def test_the_coordinator_dies(accident: Accident, request_name: str) -> None:
    """SIGKILL of the broker that coordinates group and transactions, with requests on their way; a worker dies, too."""
    began = time.monotonic()
    accident.catch(request_name)
    accident.before_s = time.monotonic() - began
    accident.cluster.brokers[accident.coordinator].kill()
    accident.kill(NAMES[1])
    accident.await_failover()
    accident.await_answers()
    accident.cluster.start([accident.coordinator])
    accident.await_answers()
    accident.finish()


@pytest.mark.long
def test_rolling_restart(accident: Accident) -> None:
    """Each broker stops in order and returns, as in an upgrade."""
    for number in range(SIZE):
        accident.cluster.brokers[number].stop()
        accident.kill(NAMES[number % 2])
        accident.outlive(number)
    accident.finish()


@pytest.mark.long
def test_each_broker_is_killed_in_turn(accident: Accident) -> None:
    """SIGKILL; a worker dies when the others have taken over, or before."""
    for number in range(SIZE):
        accident.cluster.brokers[number].kill()
        accident.wait(3 * number)
        accident.kill(NAMES[number % 2])
        accident.outlive(number)
    accident.finish()


@pytest.mark.long
def test_the_coordinator_is_frozen(accident: Accident) -> None:
    """SIGSTOP for 30 s: its connections stay and are silent, and it wakes as a stranger to the cluster."""
    broker = accident.cluster.brokers[accident.coordinator]
    accident.catch("AddPartitionsToTxn")
    broker.sleep()
    began = time.monotonic()
    accident.wait(5)
    accident.kill(NAMES[1])
    accident.wait(began + FROZEN_S - time.monotonic())
    broker.wake()
    accident.await_in_sync()
    accident.await_answers()
    accident.finish()


@pytest.mark.long
def test_two_brokers_are_down_and_return(accident: Accident) -> None:
    """The one that is left has no majority, and nothing can be written."""
    down = [number for number in range(SIZE) if number != accident.coordinator]
    for number in down:
        accident.cluster.brokers[number].kill()
    accident.wait(10)
    accident.kill(NAMES[0])
    accident.wait(10)
    accident.cluster.start(down)
    accident.await_failover()
    accident.await_answers()
    accident.finish()


@pytest.mark.long
def test_workers_are_cut_off_from_one_broker(accident: Accident) -> None:
    """A black hole for 60 s between them and their coordinator, which is well for all others."""
    proxy = accident.cluster.proxies[accident.coordinator]
    accident.harm_s = CUT_OFF_S
    proxy.black_hole()
    accident.wait(CUT_OFF_S / 2)
    accident.kill(NAMES[1])
    accident.wait(CUT_OFF_S / 2)
    proxy.restore()
    accident.await_answers()
    accident.finish()


@pytest.mark.long
def test_everything_is_late(accident: Accident) -> None:
    """Each request takes 300 ± 300 ms longer for a minute."""
    rules = [proxy.strike(ANY, Harm.DELAY, ALWAYS, 0.3, 0.3) for proxy in accident.cluster.proxies]
    accident.wait(20)
    accident.await_answers()
    assert accident.longest_pause_s <= LATE_COMMIT_S + ALLOWANCE_S
    accident.harm_s = LATE_START_S
    for name in NAMES:
        accident.kill(name)
        accident.wait(20)
    assert all(rule.struck for rule in rules)
    accident.finish()


@pytest.mark.long
def test_everything_comes_twice(accident: Accident) -> None:
    """Each request of a transaction comes twice for a minute, as when a client's first try arrives, too."""
    rules = [
        proxy.strike(name, Harm.DUPLICATE, ALWAYS) for proxy in accident.cluster.proxies for name in IN_TRANSACTIONS
    ]
    for name in NAMES:
        accident.wait(20)
        accident.kill(name)
    accident.wait(20)
    assert {rule.name for rule in rules if rule.struck} >= set(IN_TRANSACTIONS) - {"EndTxn abort"}
    accident.finish()
