"""`stream-apple join` on a real broker: what it has made of two topics is what an offline join makes of them."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgpack
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families
from support.local_http import fetch
from support.oracles.offline_join import Example, Rule, content_of, joined_at_once, joined_by_times, joined_in_sequence
from support.topics import FOREVER, LogEnds, TopicFactory, read_to_end, unique_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import DEADLINE_S, WorkerProcess

from stream_apple.config import Config, load
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.dead_letters import dead_letter_origin

PARTITIONS = 3
RULE = Rule(wait=2000, tolerance=600, default=-1.0)
SECONDS = 8
KILLS = 4


class Topics(NamedTuple):
    """Where a joiner reads and writes."""

    impressions: str
    outcomes: str
    examples: str
    dead_letters: str


class Feed:
    """Impressions and outcomes, as they happen, some of them broken; use `step` again and again."""

    def __init__(self, bootstrap: str, topics: Topics, seed: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        self._topics = topics
        self._draw = random.Random(seed)
        self._later: list[tuple[float, int, bytes, bytes]] = []
        self.number = 0

    def step(self) -> None:
        """Some milliseconds of traffic."""
        draw, now = self._draw, time.time()
        for _ in range(draw.randrange(8)):
            self.number += 1
            name, partition = f"i{self.number}", draw.randrange(PARTITIONS)
            value = msgpack.packb({"id": name, "features": {"a": self.number % 7}, "note": [self.number]})
            if draw.random() < 0.02:
                value = b"\xc1"
            self._send(self._topics.impressions, partition, name.encode(), value, now - draw.random() * 0.2)
            for _ in range(draw.choice([0, 0, 1, 2])):
                outcome = msgpack.packb({"id": name, "label": draw.randrange(3)})
                self._later.append((now + draw.random() * 2.5, partition, name.encode(), outcome))
        due = [each for each in self._later if each[0] <= now]
        self._later = [each for each in self._later if each[0] > now]
        # They happen now, not when they were due: on a slow machine that may be seconds ago, for which they'd be late.
        for _, partition, key, value in due:
            self._send(self._topics.outcomes, partition, key, value, now - draw.random() * 0.1)
        self._producer.poll(0)
        time.sleep(0.01)

    def _send(self, topic: str, partition: int, key: bytes, value: bytes, at: float) -> None:
        self._producer.produce(topic, value, key, partition, timestamp=int(at * 1000))

    def flush(self) -> None:
        """All of it is in the topics."""
        assert self._producer.flush(DEADLINE_S) == 0


@pytest.fixture
def topics(kafka: str) -> Topics:
    """New ones."""
    create: TopicFactory = unique_topics(kafka)
    impressions, outcomes, examples = (create(stem, PARTITIONS, FOREVER) for stem in ("shown", "clicked", "examples"))
    return Topics(impressions, outcomes, examples, create("join-dead-letters", 1, FOREVER))


@pytest.fixture
def config_file(kafka: str, topics: Topics, tmp_path: Path) -> Path:
    """A joiner that commits often, so that an accident has much to hit."""
    return write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics={"examples": topics.examples},
        worker={"commit_interval": "40ms", "fetch_records": 200},
        join={
            "impressions": topics.impressions,
            "outcomes": topics.outcomes,
            "dead_letters": topics.dead_letters,
            "group": f"join-{topics.examples}",
            "wait": f"{RULE.wait}ms",
            "tolerance": f"{RULE.tolerance}ms",
            "default_label": RULE.default,
        },
    )


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """None of them outlives the test."""
    with ExitStack() as started:
        yield started


def joined(bootstrap: str, topics: Topics) -> int:
    """How many impressions have become something."""
    examples = sum(map(len, read_to_end(bootstrap, topics.examples, PARTITIONS).values()))
    letters = read_to_end(bootstrap, topics.dead_letters)[0]
    return examples + sum(_origin(letter)[0] == topics.impressions for letter in letters)


def _origin(letter: Message) -> tuple[str, int, int]:
    origin = dead_letter_origin(letter)  # type: ignore[arg-type]  # a Record by its methods
    assert origin is not None
    return origin.topic, origin.partition, origin.offset


def check_at_once(bootstrap: str, topics: Topics) -> None:
    """Examples are those of an offline join, each once; those with an outcome are in the topic sooner than others."""
    examples = read_to_end(bootstrap, topics.examples, PARTITIONS)
    impressions = read_to_end(bootstrap, topics.impressions, PARTITIONS)
    outcomes = read_to_end(bootstrap, topics.outcomes, PARTITIONS)
    for number in range(PARTITIONS):
        whole = [each for each in impressions[number] if each.value() != b"\xc1"]
        wanted = joined_at_once(RULE, whole, outcomes[number])  # type: ignore[arg-type]
        found = [Example(each.key(), content_of(each.value()), each.timestamp()[1]) for each in examples[number]]
        places = {each.key: place for place, each in enumerate(wanted)}
        assert sorted(found, key=lambda each: places[each.key]) == wanted
        assert found != wanted


def check(bootstrap: str, topics: Topics) -> None:
    """Examples and dead letters are those of an offline join of the two topics."""
    examples = read_to_end(bootstrap, topics.examples, PARTITIONS)
    impressions = read_to_end(bootstrap, topics.impressions, PARTITIONS)
    outcomes = read_to_end(bootstrap, topics.outcomes, PARTITIONS)
    refused = sorted(_origin(letter) for letter in read_to_end(bootstrap, topics.dead_letters)[0])
    wanted_refused = []
    for number in range(PARTITIONS):
        whole = [each for each in impressions[number] if each.value() != b"\xc1"]
        broken = [each.offset() or 0 for each in impressions[number] if each.value() == b"\xc1"]
        wanted = joined_in_sequence(RULE, whole, outcomes[number])  # type: ignore[arg-type]
        found = [Example(each.key(), content_of(each.value()), each.timestamp()[1]) for each in examples[number]]
        assert found == wanted.examples
        if not wanted.refused_impressions + wanted.refused_outcomes:
            assert found == joined_by_times(RULE, whole, outcomes[number])  # type: ignore[arg-type]
        wanted_refused += [(topics.impressions, number, at) for at in broken + wanted.refused_impressions]
        wanted_refused += [(topics.outcomes, number, at) for at in wanted.refused_outcomes]
        assert len({example.content["label"] for example in found}) == 4
    assert refused == sorted(wanted_refused)


def fates(port: int) -> dict[str, int]:
    """What the metrics say has become of impressions."""
    text = fetch(port, "/metrics").body.decode()
    found: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "stream_apple_join_impressions_total":
                found[sample.labels["fate"]] = found.get(sample.labels["fate"], 0) + int(sample.value)
    return found


def forgotten(bootstrap: str, group: str) -> bool:
    """Whether Kafka has no offsets of the group any more, as a week after its last member; not while it has members."""
    client = AdminClient({"bootstrap.servers": bootstrap})  # its futures end with it
    (future,) = client.delete_consumer_groups([group]).values()
    try:
        future.result(DEADLINE_S)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
    return True


class TestJoining:
    """Whatever happens to joiners, readers of committed data can't tell."""

    def test_one_joiner_that_nothing_disturbs(
        self, kafka: str, topics: Topics, config_file: Path, tmp_path: Path, processes: ExitStack
    ) -> None:
        """It joins, answers probes, and stops in order."""
        joiner = processes.enter_context(WorkerProcess(config_file, tmp_path / "join.log", command="join"))
        feed = Feed(kafka, topics, seed=1)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            feed.step()
        feed.flush()
        joiner.wait_until(lambda: joined(kafka, topics) == feed.number, "all were joined", 0.3)
        port = joiner.http_port
        ready = fetch(port, "/readyz").json()
        assert ready["status"] == "ready"
        assert ready["partitions"] == dict.fromkeys(map(str, range(PARTITIONS)), "live")
        assert fetch(port, "/livez").status == 200
        told = fates(port)
        assert joiner.terminate() == 0
        assert sum(told[fate] for fate in ("labelled", "default", "refused")) == feed.number
        assert told["default"] > told["labelled"] > 10 * told["refused"] > 0
        check(kafka, topics)
        assert {"started", "join_assigned", "join_live", "stop_requested", "stopped"} <= set(joiner.events())

        for group in (f"another-{topics.examples}", f"join-{topics.examples}"):
            wait_until(lambda: forgotten(kafka, group), f"Kafka had forgotten {group}", DEADLINE_S, 0.2)  # noqa: B023
            settings = {"STREAM_APPLE_JOIN__GROUP": group}
            again = WorkerProcess(config_file, tmp_path / f"{group}.log", settings=settings, command="join")
            code, error = processes.enter_context(again).end()
            assert code == 78, error
            assert f" of group join-{topics.examples}, " in error
            assert "each impression would become an example a second time" in error
        assert joined(kafka, topics) == feed.number

    @pytest.mark.parametrize("emit", ["when_due", "on_outcome"])
    def test_kills_and_rebalances(
        self, kafka: str, topics: Topics, config_file: Path, tmp_path: Path, processes: ExitStack, emit: str
    ) -> None:
        """Two joiners, of which now one, now the other is killed, stays, leaves, and comes back."""
        draw = random.Random(33)  # by which each joiner is killed, and one is asked to stop and to stay, or to leave
        settings = {"STREAM_APPLE_JOIN__EMIT": emit}
        settings |= {"STREAM_APPLE_JOIN__SEVERAL": "first"} if emit == "on_outcome" else {}

        def start(name: str) -> WorkerProcess:
            on_stop = draw.choice(["stay", "leave"])
            log = tmp_path / f"{name}.log"
            return processes.enter_context(
                WorkerProcess(config_file, log, name, on_stop, settings=settings, command="join")
            )

        joiners = [start("joiner-0"), start("joiner-1")]
        feed = Feed(kafka, topics, seed=2)
        for _ in range(KILLS):
            end, which = time.monotonic() + SECONDS / KILLS + draw.random(), draw.randrange(2)
            while time.monotonic() < end or "started" not in joiners[which].events():
                feed.step()
            if draw.random() < 0.7:
                joiners[which].kill()
            else:
                joiners[which].terminate()
            joiners[which] = start(f"joiner-{which}")
        feed.flush()
        wait_until(lambda: joined(kafka, topics) == feed.number, "all were joined", DEADLINE_S, 0.5)
        check(kafka, topics) if emit == "when_due" else check_at_once(kafka, topics)
        assert any("join_live" in joiner.events() for joiner in joiners)


def test_records_of_another_shape_are_joined_and_learned(
    kafka: str, topics: Topics, tmp_path: Path, processes: ExitStack
) -> None:
    """A joiner and a worker of one configuration: what the one has put into flat records, the other reads."""
    create: TopicFactory = unique_topics(kafka)
    predictions, letters = (create(stem, PARTITIONS, FOREVER) for stem in ("predictions", "dead-letters"))
    models = create("models", PARTITIONS, {"cleanup.policy": "compact"})
    config = write_config(
        tmp_path / "flat.toml",
        kafka,
        topics={
            "examples": topics.examples,
            "predictions": predictions,
            "models": models,
            "dead_letters": letters,
        },
        input={"id": "request", "label": "clicked", "timestamp": "shown", "features": "*"},
        learner={"bits": 12, "loss": "logistic"},
        epochs={"length": "1h"},
        worker={"group": f"learn-{topics.examples}", "commit_interval": "100ms"},
        join={
            "impressions": topics.impressions,
            "outcomes": topics.outcomes,
            "dead_letters": topics.dead_letters,
            "group": f"join-{topics.examples}",
            "wait": "1s",
            "tolerance": "300ms",
            "default_label": 0,
            "outcome_id": "of.request",
            "outcome_label": "event",
            "outcome_label_map": "click=1,skip=0",
        },
    )
    processes.enter_context(WorkerProcess(config, tmp_path / "join.log", command="join"))
    worker = processes.enter_context(WorkerProcess(config, tmp_path / "run.log"))
    producer, draw = (
        Producer({"bootstrap.servers": kafka, "linger.ms": 5, "enable.idempotence": True}),
        random.Random(4),
    )
    clicked, count = dict[int, bool](), 300
    for number in range(count):
        shown, partition = time.time(), number % PARTITIONS
        fields = {"request": number, "user": f"u{number % 9}", "price": 0.5, "shown": round(shown * 1000)}
        producer.produce(topics.impressions, json.dumps(fields).encode(), b"%d" % number, partition)
        clicked[number] = draw.random() < 0.4
        if clicked[number] or draw.random() < 0.2:
            outcome = {"of": {"request": number}, "event": "click" if clicked[number] else "skip"}
            producer.produce(topics.outcomes, msgpack.packb(outcome), b"%d" % number, partition)
        producer.poll(0)
        time.sleep(0.002)
    assert producer.flush(DEADLINE_S) == 0

    def answered() -> int:
        return sum(map(len, read_to_end(kafka, predictions, PARTITIONS).values()))

    worker.wait_until(lambda: answered() == count, "all were answered", 0.5)
    examples = [each for some in read_to_end(kafka, topics.examples, PARTITIONS).values() for each in some]
    found = {each["request"]: each["clicked"] for each in (json.loads(example.value() or b"") for example in examples)}
    assert found == clicked
    assert not any(read_to_end(kafka, letters, PARTITIONS).values())
    answers = [each for some in read_to_end(kafka, predictions, PARTITIONS).values() for each in some]
    told = [decode_prediction(answer.value() or b"") for answer in answers]
    assert {each["id"]: each["label"] == 1 for each in told} == clicked


def test_topics_that_do_not_fit_are_refused(
    kafka: str, config_file: Path, tmp_path: Path, processes: ExitStack
) -> None:
    """Another number of partitions, or no such topic: exit code 78, and the topic's name."""
    wide = unique_topics(kafka)("outcomes", PARTITIONS + 1, FOREVER)
    for outcomes, words in ((wide, f"expected topic {wide} to have {PARTITIONS} partitions"), ("none", "topic none:")):
        settings = {"STREAM_APPLE_JOIN__OUTCOMES": outcomes}
        log = tmp_path / "refused.log"
        joiner = processes.enter_context(WorkerProcess(config_file, log, settings=settings, command="join"))
        code, error = joiner.end()
        assert (code, words in error) == (78, True), error


def test_what_is_mistyped_ends_the_command_alone(
    kafka: str, topics: Topics, config_file: Path, tmp_path: Path, processes: ExitStack
) -> None:
    """From another machine, with the id of a joiner at work, which goes on."""

    def start(name: str, **settings: str) -> WorkerProcess:
        joiner = WorkerProcess(
            config_file, tmp_path / name, settings=settings, elsewhere=bool(settings), command="join"
        )
        return processes.enter_context(joiner)

    joiner = start("joiner.log")
    joiner.wait_for_event("join_live")
    ends = LogEnds(kafka)

    def beats() -> None:
        before = ends.of(topics.outcomes)
        joiner.wait_until(lambda: ends.of(topics.outcomes) > before, "a further heartbeat")

    beats()
    other = unique_topics(kafka)("outcomes", PARTITIONS, FOREVER)
    code, error = start("mistyped.log", STREAM_APPLE_JOIN__OUTCOMES=other).end()
    assert (code, f"expected a join with the topic of outcomes {other}" in error) == (78, True), error
    beats()
    assert joiner.terminate() == 0


def test_the_configuration_is_what_the_test_says(config_file: Path) -> None:
    """The rule of the offline join is that of the joiner."""
    config: Config = load(config_file, {})
    join = config.join
    assert (join.wait, join.tolerance, join.default_label, join.several) == RULE
