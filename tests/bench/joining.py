"""The joiner: impressions a second of a core, alone and through a real broker, and what outcomes take in memory.

    python tests/bench/joining.py [PARTITIONS]

Impressions of 57 features in msgpack; one of twenty has an outcome, within the wait. The seconds of a core are those of
the joiner's process, Kafka's client in it included, from the first example to the last. The yardstick, in the same run:
a loop of one thread that only consumes the impressions and produces as many bytes, in transactions. Needs Java 17 and
Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import gc
import json
import random
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgpack
import psutil
from confluent_kafka import KafkaException, Producer
from feeds.streams import START_MS, broker
from report import figure, header
from support.records import FakeRecord
from support.topics import FOREVER, LogEnds, unique_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess
from worker import bare_loop

from stream_apple.records.mapping import InputMapping
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.own_messages import heartbeat_value, read_impressions, read_outcomes
from stream_apple.stream.joining.partition_join import PartitionJoin
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.rule import JoinRule

IMPRESSIONS, ROUNDS, BATCH = 400_000, 3, 1000
WAIT_MS, TOLERANCE_MS = 60_000, 5_000
OUTCOMES_HELD = (100_000, 200_000, 400_000)
MAX_BYTES = 1_000_000
SHARE = 0.05
RULE = JoinRule("impressions", "outcomes", WAIT_MS, TOLERANCE_MS, -1.0, "last", 10_000_000, MAX_BYTES)
FLAT = RULE._replace(impression_shape=InputMapping(id="request", features="*"))
AT_ONCE = RULE._replace(several="first", on_outcome=True, max_impressions=1_000_000)
HARD = 20_000
"""Records of each log in the cases that are hard: an id that never ends, and outcomes ahead of the clock."""
ORIGIN = JoinPosition(0, 0, 0, OutcomeClock())

Row: TypeAlias = tuple[bytes | None, bytes, int]
"""Key, value and time."""


def made_up() -> tuple[list[Row], list[Row]]:
    """Key, value and time of impressions, a millisecond apart, and of outcomes; a heartbeat in the end."""
    draw = random.Random(1)
    names = [f"{draw.choice(['user', 'ad', 'page'])}_{number}" for number in range(57)]
    bodies = [msgpack.packb({each: draw.random() for each in names}, use_single_float=True) for _ in range(1000)]
    impressions: list[Row] = []
    outcomes: list[Row] = []
    for number in range(IMPRESSIONS):
        name, time_ms = f"{draw.getrandbits(64):016x}", START_MS + number
        start = b"\x82" + msgpack.packb("id") + msgpack.packb(name) + msgpack.packb("features")
        impressions.append((name.encode(), start + bodies[number % 1000], time_ms))
        if draw.random() < SHARE:
            outcome = msgpack.packb({"id": name, "label": 1})
            outcomes.append((name.encode(), outcome, time_ms + draw.randrange(WAIT_MS)))
    outcomes.sort(key=lambda each: each[2])
    # In a log without heartbeats, what comes after the last outcome's time would wait for a joiner's.
    outcomes.append((None, heartbeat_value(IMPRESSIONS), START_MS + IMPRESSIONS + 3 * WAIT_MS))
    return impressions, outcomes


def flat(row: Row, *, in_json: bool) -> Row:
    """The same impression as a record of another shape: all features beside the id."""
    key, value, time_ms = row
    message = msgpack.unpackb(value)
    fields = {"request": message["id"], **message["features"]}
    return key, json.dumps(fields).encode() if in_json else msgpack.packb(fields), time_ms


def alone(impressions: list[Row], outcomes: list[Row], rule: JoinRule = RULE) -> float:
    """Impressions a second of a core that are decoded and joined, without Kafka."""
    records = JoinInput(rule)
    shown = [FakeRecord(0, at, value, time_ms, key) for at, (key, value, time_ms) in enumerate(impressions)]
    done = [FakeRecord(0, at, value, time_ms, key) for at, (key, value, time_ms) in enumerate(outcomes)]
    join = PartitionJoin(rule, ORIGIN)
    began, made, at, then = time.process_time(), 0, 0, 0
    while made < len(shown):
        if join.wants_impressions(BATCH) and at < len(shown):
            some = shown[at : at + BATCH]
            at += BATCH
            join.offer_impressions(records.impressions(some), at, len(shown))
        if join.wants_outcomes(BATCH) and then < len(done):
            join.offer_outcomes(records.outcomes(done[then : then + BATCH]))
            then += BATCH
        made += len(join.advance(BATCH).values)
    return made / (time.process_time() - began)


def of_one_id(count: int) -> tuple[list[Row], list[Row]]:
    """Return impressions of one id and their outcomes, which are spread over half of the wait, and heartbeats."""
    shown: list[Row] = []
    said: list[Row] = []
    for number in range(count):
        time_ms = START_MS + number * WAIT_MS // 2 // count
        shown.append((b"unknown", msgpack.packb({"id": "unknown", "features": {}}), time_ms))
        said.append((b"unknown", msgpack.packb({"id": "unknown", "label": 1}), time_ms))
        if number % 100 == 99:
            said.append((None, heartbeat_value(number + 1), time_ms))
    said.append((None, heartbeat_value(count), START_MS + 3 * WAIT_MS))
    return shown, said


def ahead_of_the_clock(count: int) -> tuple[list[Row], list[Row]]:
    """Return a few impressions, and outcomes of which each second one is ahead of the clock."""
    draw = random.Random(1)
    said: list[Row] = [(None, heartbeat_value(0), START_MS)]
    for number in range(count):
        step = number * WAIT_MS // count
        time_ms = START_MS + step + (2 * TOLERANCE_MS + draw.randrange(WAIT_MS) if number % 2 else 0)
        said.append((b"i", msgpack.packb({"id": f"i{number}", "label": 1}), time_ms))
    said.append((None, heartbeat_value(100), START_MS + 3 * WAIT_MS))
    return [(b"i", msgpack.packb({"id": f"i{number}", "features": {}}), START_MS) for number in range(100)], said


def records_a_second(rows: tuple[list[Row], list[Row]], rule: JoinRule) -> float:
    """Return how many records of both logs a core joins in a second, without Kafka."""
    began = time.process_time()
    alone(*rows, rule)
    return sum(map(len, rows)) / (time.process_time() - began)


def bytes_of_an_outcome() -> float:
    """Resident bytes that a further outcome takes, by a line through some numbers of them."""
    process, sizes = psutil.Process(), []
    join = PartitionJoin(RULE, ORIGIN._replace(shown=START_MS))
    # An impression that is never due has outcomes taken in.
    join.offer_impressions(read_impressions([FakeRecord(0, 0, b'{"id": "i", "features": {}}', START_MS)], MAX_BYTES))
    taken = 0
    for count in OUTCOMES_HELD:
        while taken < count:
            value = msgpack.packb({"id": f"{taken:016x}", "label": 1})
            join.offer_outcomes(read_outcomes([FakeRecord(0, taken, value, START_MS, b"key")], MAX_BYTES))
            join.advance(10)
            taken += 1
        assert join.window.outcomes == count
        gc.collect()
        sizes.append(process.memory_info().rss)
    grown: int = sizes[-1] - sizes[0]
    return grown / (OUTCOMES_HELD[-1] - OUTCOMES_HELD[0])


def fill(bootstrap: str, topic: str, rows: list[Row], partitions: int) -> None:
    """Produce each row to the partition of its key; one without a key to all."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for key, value, time_ms in rows:
        for number in range(partitions) if key is None else [int(key[-1:], 16) % partitions]:
            while True:
                try:
                    producer.produce(topic, value, key, number, timestamp=time_ms)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush(60)


def through_a_broker(
    bootstrap: str, topics: dict[str, str], partitions: int, directory: Path
) -> tuple[float, float, float]:
    """Impressions a second, and a second of a core, of a joiner that finds them all in the topic; its resident MB."""
    examples = unique_topics(bootstrap)("examples", partitions, FOREVER)
    config = write_config(
        directory / "join.toml",
        bootstrap,
        topics={"examples": examples},
        join={
            **topics,
            "group": uuid.uuid4().hex,
            "wait": f"{WAIT_MS}ms",
            "tolerance": f"{TOLERANCE_MS}ms",
            "default_label": -1,
        },
    )
    ends = LogEnds(bootstrap)
    wait_until(lambda: _written(ends, examples, partitions) == 0, f"leaders of {examples}")
    first, first_count, first_cpu, count = 0.0, 0, 0.0, 0
    with WorkerProcess(config, directory / "join.log", command="join") as process:
        watched = psutil.Process(process.process.pid)
        while count < IMPRESSIONS:
            assert process.running, process.tail()
            count = _written(ends, examples, partitions)
            if count and not first:
                first, first_count, first_cpu = time.monotonic(), count, sum(watched.cpu_times()[:2])
            time.sleep(0.02)
        seconds, cpu = time.monotonic() - first, sum(watched.cpu_times()[:2]) - first_cpu
        resident = watched.memory_info().rss / 1e6
        assert process.terminate() == 0
    return (count - first_count) / seconds, (count - first_count) / cpu, resident


def _written(ends: LogEnds, topic: str, partitions: int) -> int:
    """Return how much is in the topic; -1 if a new one has no leaders yet."""
    with suppress(KafkaException):
        return sum(ends.of(topic, number) for number in range(partitions))
    return -1


def run(bootstrap: str, partitions: int, directory: Path) -> None:
    """Fill the topics, then interleave joiner and yardstick."""
    impressions, outcomes = made_up()
    create = unique_topics(bootstrap)
    topics = {stem: create(stem, partitions, FOREVER) for stem in ("impressions", "outcomes")}
    topics["dead_letters"] = create("join-dead-letters", 1, FOREVER)
    fill(bootstrap, topics["impressions"], impressions, partitions)
    fill(bootstrap, topics["outcomes"], outcomes, partitions)
    of_json, of_msgpack = (
        [flat(row, in_json=in_json) for row in impressions[: len(impressions) // 4]] for in_json in (True, False)
    )
    json_rates, msgpack_rates = [], []
    alone_rates, rates, of_a_core, resident, bare = [], [], [], [], []
    for _ in range(ROUNDS):
        alone_rates.append(alone(impressions, outcomes))
        json_rates.append(alone(of_json, outcomes, FLAT))
        msgpack_rates.append(alone(of_msgpack, outcomes, FLAT))
        rate, core, megabytes = through_a_broker(bootstrap, topics, partitions, directory)
        rates.append(rate)
        of_a_core.append(core)
        resident.append(megabytes)
        bare.append(bare_loop(bootstrap, topics["impressions"], partitions, IMPRESSIONS, impressions[0][1]))
        print(f"  alone {alone_rates[-1]:9,.0f}, joiner {rate:9,.0f}, bare loop {bare[-1]:9,.0f} a second", flush=True)
    size = len(impressions[0][1])
    print(f"{IMPRESSIONS:,} impressions of {size} bytes, {len(outcomes):,} outcomes, {partitions} partitions, medians:")
    print(f"  without Kafka      {figure('alone', alone_rates, 'impressions/s'):9,.0f} impressions/s of a core")
    print(
        f"  ... flat JSON      {figure('alone, flat JSON', json_rates, 'impressions/s'):9,.0f} impressions/s of a core"
    )
    print(f"  ... flat msgpack   {figure('alone, flat msgpack', msgpack_rates, 'impressions/s'):9,.0f} impressions/s")
    print(f"  joiner             {figure('joiner', rates, 'impressions/s'):9,.0f} impressions/s")
    print(f"  ... of a core      {figure('joiner, of a core', of_a_core, 'impressions/s'):9,.0f} impressions/s")
    print(f"  bare loop          {figure('bare loop', bare, 'records/s'):9,.0f} records/s")
    print(f"  joiner, resident   {figure('joiner, resident', resident, 'MB'):9,.0f} MB")
    for name, rows, rule in (
        ("one id, on_outcome", of_one_id(HARD), AT_ONCE),
        ("one id, when_due", of_one_id(HARD), RULE),
        ("ahead of the clock", ahead_of_the_clock(HARD), RULE),
    ):
        rates = [records_a_second(rows, rule) for _ in range(ROUNDS)]
        print(f"  {name:18} {figure(name, rates, 'records/s'):9,.0f} records/s of a core")
    print(f"  a held outcome     {figure('a held outcome', [bytes_of_an_outcome()], 'bytes'):9,.0f} bytes")


def main() -> None:
    """Bring a broker, or use the one named."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(header("confluent-kafka", "msgpack", "numba"))
    with broker() as (bootstrap, directory):
        run(bootstrap, partitions, directory)


if __name__ == "__main__":
    main()
