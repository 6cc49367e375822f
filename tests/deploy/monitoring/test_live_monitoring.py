"""A real worker on the real broker, scraped by a real Prometheus with our rules: what they and the dashboard ask for
is there, and they see when the worker is gone.
"""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from deploy.monitoring.live_feed import live_feed
from deploy.monitoring.prometheus_server import Binaries, Server
from deploy.monitoring.queries import (
    RULES,
    Place,
    Selector,
    annotation_expressions,
    dashboard,
    panel_expressions,
    rules,
    selectors,
)
from support import waiting
from support.command import call_command
from support.kafka.background_producer import BackgroundProducer
from support.kafka.broker import Broker
from support.ports import free_ports
from support.worker_config import write_config
from support.worker_process import WorkerProcess

PARTITIONS = 2
DEADLINE_S = 150.0
JOB = "clicks"
TOPIC = "examples"
GROUP = "stream-apple"

# Series that only trouble makes.
OF_TROUBLE = {"ALERTS"}

OF_OTHERS = (
    *("stream_apple_comparison_", "stream_apple_serve_", "stream_apple_join_"),
    *("job:stream_apple_joiners:", "job:stream_apple_replicas:"),
)
"""Here are workers alone. Tests of the commands see that the series of these are there."""
CHOOSE_OTHERS = ("$comparison", "$replica", "$joiner")


class Watched(NamedTuple):
    """A worker in its second life, with what it works on and what watches it."""

    broker: Broker
    server: Server
    worker: WorkerProcess
    feed: BackgroundProducer


@pytest.fixture(scope="module")
def watched(jars: Path, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A worker that was stopped once and started again, so that it has restored its models, and goes on working."""
    directory = tmp_path_factory.mktemp("watched")
    broker = Broker(directory / "kafka", jars)
    (port,) = free_ports(1)
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        config = write_config(
            directory / "worker.toml",
            broker.bootstrap,
            worker={"commit_interval": "500ms", "snapshot_interval": "5s"},
            learner={"bits": 16},
            epochs={"length": "5s"},
            merge={"mode": "average", "patience": "1s", "max_hold": "10s"},
            http={"port": port},
        )
        made = call_command("topics", "--config", config, "--partitions", str(PARTITIONS))
        assert made.returncode == 0, made.stdout + made.stderr
        feed = stack.enter_context(live_feed(broker.bootstrap, TOPIC, PARTITIONS))
        server = stack.enter_context(Server(binaries, directory / "prometheus", RULES, f"127.0.0.1:{port}", JOB))
        live = 'count(stream_apple_partition_state{state="live"} == 1)'
        first = stack.enter_context(WorkerProcess(config, directory / "first.log"))
        first.wait_until(lambda: [each.value for each in server.query(live)] == [PARTITIONS], "being live")
        first.wait_until(lambda: bool(server.query("stream_apple_epoch_digest_info")), "an epoch's end")
        assert first.terminate() == 0
        second = stack.enter_context(WorkerProcess(config, directory / "second.log"))
        second.wait_for_event("restoring")
        yield Watched(broker, server, second, feed)


def wait_until(done: Callable[[], object], what: Callable[[], object]) -> None:
    """Wait, and look as often as Prometheus scrapes and evaluates; `what` is still wrong is the message."""
    waiting.wait_until(done, what, DEADLINE_S, pause_s=0.5)


def filled_in(expression: str) -> str:
    """The expression as Grafana sends it, with all workers and partitions chosen."""
    values = {
        "instance": ".+",
        "replica": ".+",
        "joiner": ".+",
        "comparison": ".+",
        "partition": ".+",
        "topic": TOPIC,
        "group": GROUP,
        "job": JOB,
        "__rate_interval": "1m",
    }
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], expression)


def wait_for_numbers(watched: Watched, places: list[Place]) -> None:
    """Poll until each expression has once been answered with a finite number."""
    open_ones = list(places)

    def all_answered() -> bool:
        open_ones[:] = [
            place
            for place in open_ones
            if not any(math.isfinite(each.value) for each in watched.server.query(place.expression))
        ]
        return not open_ones

    wait_until(all_answered, lambda: f"no data for {open_ones}; the worker's log ends:\n{watched.worker.tail()}")


def test_every_query_of_the_dashboard_has_data(watched: Watched) -> None:
    """No panel and no annotation stays empty for another reason than that there is nothing wrong."""
    asked: list[Place] = []
    of_trouble: list[Place] = []
    for where, expression in panel_expressions() + annotation_expressions():
        named = {selector.name for selector in selectors(expression)}
        absent = named & OF_TROUBLE or any(variable in expression for variable in CHOOSE_OTHERS)
        (of_trouble if absent else asked).append(Place(where, filled_in(expression)))
    assert len(asked) > 50
    wait_for_numbers(watched, asked)
    for place in of_trouble:
        watched.server.query(place.expression)


def test_every_recording_rule_records(watched: Watched) -> None:
    """Each gives numbers, under the name that alerts look for."""
    recorded = [rule["record"] for rule in rules() if "record" in rule]
    wait_for_numbers(watched, [Place("record", name) for name in recorded if not name.startswith(OF_OTHERS)])


def test_everything_that_alerts_look_at_is_there(watched: Watched) -> None:
    """An alert on a series, or on a label's value, that does not exist would be quiet for ever."""
    looked_at = {
        Place(rule["alert"], text)
        for rule in rules()
        if "alert" in rule
        for selector in selectors(rule["expr"])
        if not selector.name.startswith(OF_OTHERS)
        for text in spelt_out(selector)
    }
    wait_for_numbers(watched, sorted(looked_at))


def spelt_out(selector: Selector) -> list[str]:
    """The selector once for each alternative of its matchers such as `state=~"a|b"`; these have one at most."""
    texts = [""]
    for label, operator, value in selector.matchers:
        assert operator in {"=", "=~"}
        texts = [f'{text}{label}="{each}",' for text in texts for each in value.split("|")]
    return [f"{selector.name}{{{text}}}" for text in texts]


def test_all_rules_evaluate_and_all_alerts_come_to_rest(watched: Watched) -> None:
    """Nothing is wrong with this worker, so nothing fires, and there is a moment when nothing is about to."""
    states: dict[str, str] = {}

    def at_rest() -> bool:
        loaded = watched.server.rules()
        states.update({rule["name"]: rule["state"] for rule in loaded if rule["type"] == "alerting"})
        assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}, loaded
        assert "firing" not in states.values(), states
        return all(rule["health"] == "ok" for rule in loaded) and set(states.values()) == {"inactive"}

    wait_until(at_rest, lambda: states)
    assert set(states) == {rule["alert"] for rule in rules() if "alert" in rule}


def test_the_variables_find_the_worker(watched: Watched) -> None:
    """Topic, group, worker and partitions can be chosen, each from what was chosen before."""
    found = {}
    for variable in dashboard()["templating"]["list"][1:]:
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert asked
        found[variable["name"]] = watched.server.label_values(filled_in(asked[1]), asked[2])
    assert found.pop("instance") == {each.labels["instance"] for each in watched.server.query("up")}
    assert [found.pop(name) for name in ("replica", "joiner", "comparison")] == [set(), set(), set()]
    assert found == {"topic": {TOPIC}, "group": {GROUP}, "partition": {"0", "1"}, "job": {JOB}}


def wait_until_pending(watched: Watched, alert: str) -> None:
    """Poll until `alert` would fire if nothing changed for its time."""
    states: dict[str, str] = {}

    def pending() -> bool:
        states.update({rule["name"]: rule["state"] for rule in watched.server.rules() if rule["type"] == "alerting"})
        return states[alert] == "pending"

    wait_until(pending, lambda: f"{states}; the worker's log ends:\n{watched.worker.tail()}")


def test_a_lost_broker_is_noticed(watched: Watched) -> None:
    """While an idle worker waits for Kafka, alive, the alert for it is on its way."""
    watched.feed.stop()
    # Longer than the snapshot interval: no transaction is open, or will be.
    idle = "sum(increase(stream_apple_transactions_total[10s])) == 0"
    wait_until(lambda: watched.server.query(idle), lambda: "there is still something to commit")
    watched.broker.kill()
    wait_until_pending(watched, "StreamAppleBrokersUnreachable")
    assert watched.worker.running


def test_a_killed_worker_is_noticed(watched: Watched) -> None:
    """Within seconds of its death the alert for it is on its way, and its gauges are gone from the graphs."""
    watched.worker.kill()
    wait_until_pending(watched, "StreamAppleNoWorker")
    wait_until(lambda: not watched.server.query("stream_apple_lag_seconds"), lambda: "it still shows its lag")
