"""What merging the partitions' models gains and costs: `python tests/bench/merging.py [--examples N] ...`.

One planted stream of rare features and pairs, dealt to 4 and to 8 partitions in turn; worker processes, 1 and 2; each
with models of their own (`merge.mode = "off"`), and merged at the end of each round by votes, with patience for ever.
So what is learned depends on the records alone: 1 and 2 workers must come to the same loss. For each of these cases:

    loss        progressive squared loss, mean of all predictions of all partitions, by a reader of committed data
    examples/s  from the first predictions that reader sees to the last; the examples are produced meanwhile
    held        seconds that a partition waited at the end of a round, by `round_adopted`: median and longest
    written     bytes a round and partition: snapshots (its contribution, and the model that has adopted), and its share
                of the merge
    read        bytes a round and partition: its contribution by the leader, and its share of the merged model, which
                each worker reads once

With `--timeline`, the time of a hold besides, cut at what workers log: seconds from each moment to the next, medians of
rounds; each stage ends when the last partition has come so far.

Workers write no snapshots but those of merging. The last round is not merged: nothing comes after it. Broker, producer,
reader and workers share this machine. Needs Java 17 and Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import argparse
import itertools
import math
import statistics
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from feeds.streams import START_MS, broker, fill
from report import figure, header
from support.local_http import metric
from support.topics import create_worker_topics, unique_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction

sys.path.append(str(Path(__file__).parents[2]))

from study.experiments.planted_pairs import plant_pairs

BITS, SEED = 18, 7
DEADLINE_S = 900.0


class Case(NamedTuple):
    """What is run: so many workers on a topic of so many partitions, with `merge.mode`."""

    partitions: int
    workers: int
    mode: str

    def __str__(self) -> str:
        return f"{self.partitions} partitions, {self.workers} workers, {self.mode}"


class Outcome(NamedTuple):
    """Of one run of a case; bytes are of a round and partition, 0 where nothing is merged."""

    loss: float
    rate: float
    holds: list[float]
    written: float
    read: float
    stages: list[list[float]]


STAGES = [
    ("all stand at the end of the round", "the slowest partition"),
    ("contributions are committed", "snapshots, and their commits"),
    ("the round is closed", "the leader sees them"),
    ("the first has adopted", "the leader reads contributions, merges, and commits"),
    ("all have adopted", "others have read the merged model"),
    ("all is committed", "the merge and adoptions, while partitions learn on"),
]


def stages(history: list[dict[str, Any]]) -> list[list[float]]:
    """For each merge the seconds of each of `STAGES`, from when the first partition stopped."""
    moments: dict[int, dict[str, list[float]]] = {}
    adopted_in: dict[int, int] = {}
    for event in sorted(history, key=lambda event: str(event["timestamp"])):
        now, kind = datetime.fromisoformat(event["timestamp"]).timestamp(), event["event"]
        of_round = moments.setdefault(event["round"], {}) if "round" in event else {}
        if kind == "round_adopted":
            of_round.setdefault("stopped", []).append(now - event["seconds"])
            adopted_in[event["partition"]] = event["round"]
        if kind == "round_merged":
            of_round.setdefault("closed", []).append(now - event["seconds"])
        of_round.setdefault(kind, []).append(now)
        if kind == "snapshot_written" and event["partition"] in adopted_in:
            moments[adopted_in.pop(event["partition"])].setdefault("saved", []).append(now)
    found = []
    for each in moments.values():
        if "stopped" not in each:
            continue
        ends = [
            max(each["stopped"]),
            max(each.get("round_contributed", [0.0])),
            max(each["closed"]),
            min(each["round_adopted"]),
            max(each["round_adopted"]),
            max(each["round_merged"] + each["saved"]),
        ]
        reached = list(itertools.accumulate([min(each["stopped"]), *ends], max))
        found.append([later - earlier for earlier, later in itertools.pairwise(reached)])
    return found


def planted_messages(examples: int) -> list[bytes]:
    """The stream as producers send it: each feature by a short name of its own."""
    batch = plant_pairs(examples, SEED)
    _, numbers = np.unique(batch.keys, return_inverse=True)
    names = [f"f{number}" for number in numbers]
    return [
        encode_example(Example(float(label), 1.0, None, dict.fromkeys(names[start:stop], 1.0)))
        for label, (start, stop) in zip(batch.labels, itertools.pairwise(batch.indptr), strict=True)
    ]


def owned(worker: WorkerProcess) -> set[int]:
    """The partitions whose records it answers, by its log."""
    found: set[int] = set()
    for event in worker.history():
        if event["event"] == "live":
            found.add(event["partition"])
        elif event["event"] == "revoked":
            found.discard(event["partition"])
    return found


def read_predictions(bootstrap: str, topic: str, case: Case, count: int, workers: list[WorkerProcess]) -> Outcome:
    """Loss and rate of all predictions, read as they become visible."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(case.partitions)])
    values: list[bytes] = []
    began, at_first, deadline = 0.0, 0, time.monotonic() + DEADLINE_S
    while len(values) < count:
        for worker in workers:
            assert worker.running, worker.tail()
        assert time.monotonic() < deadline, f"{case}: {len(values)} of {count} predictions within {DEADLINE_S} s"
        for message in consumer.consume(10_000, 0.05):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        if values and not began:
            began, at_first = time.monotonic(), len(values)
    seconds = time.monotonic() - began
    consumer.close()
    losses = [float(str(decode_prediction(value)["loss"])) for value in values]
    # Exactly summed: in what order partitions are read is chance.
    return Outcome(math.fsum(losses) / count, (count - at_first) / seconds, [], 0.0, 0.0, [])


def costs(outcome: Outcome, case: Case, rounds: int, workers: list[WorkerProcess]) -> Outcome:
    """The outcome with holds and bytes; AssertionError unless each partition has adopted the merge of each round."""
    history: list[dict[str, Any]] = [event for worker in workers for event in worker.history()]
    adopted = [event for event in history if event["event"] == "round_adopted"]
    due = 0 if case.mode == "off" else case.partitions * (rounds - 1)
    assert len(adopted) == due, f"{case}: expected {due} adoptions, found {len(adopted)}"
    late = [(event["round"], event["partition"]) for event in adopted if not event["included"]]
    assert not late, f"{case}: expected every partition in every merge, found these late: {late}"
    if not due:
        return outcome

    def merged(direction: str) -> float:
        ports = [worker.http_port for worker in workers]
        return sum(sum(metric(port, "stream_apple_merge_bytes_total", direction=direction)) for port in ports)

    saved = sum(event["bytes"] for event in history if event["event"] == "snapshot_written")
    # The metric counts what the leader reads. A worker reads the merge of a round besides, once for all its partitions.
    taken = merged("written") * case.workers
    return outcome._replace(
        holds=[event["seconds"] for event in adopted],
        written=(saved + merged("written")) / due,
        read=(merged("read") + taken) / due,
        stages=stages(history),
    )


def run_case(bootstrap: str, case: Case, messages: list[bytes], rounds: int, directory: Path, patience: str) -> Outcome:
    """Workers that wait for the stream, on topics of their own, and the stream."""
    create = unique_topics(bootstrap)
    topics = create_worker_topics(create, case.partitions, merges=True)
    length = -(-len(messages) // rounds)  # milliseconds: examples are one apart
    config = write_config(
        directory / "worker.toml",
        bootstrap,
        topics=topics,
        worker={"snapshot_interval": "1h"},
        learner={"bits": BITS},
        epochs={"length": f"{length}ms"},
        merge={"mode": case.mode, "patience": patience},
    )
    with ExitStack() as stack:
        workers = [
            stack.enter_context(WorkerProcess(config, directory / "worker.log", f"worker-{number}"))
            for number in range(case.workers)
        ]

        def shared_out() -> bool:
            for worker in workers:
                assert worker.running, worker.tail()
            owns = [owned(worker) for worker in workers]
            return all(owns) and sum(map(len, owns)) == case.partitions == len(set().union(*owns))

        wait_until(shared_out, lambda: f"{case}: all partitions shared out:\n{workers[0].tail()}", DEADLINE_S)
        # From the start of a round on, so that there are as many as asked for.
        fill(bootstrap, topics["examples"], messages, -START_MS % length, case.partitions)
        outcome = read_predictions(bootstrap, topics["predictions"], case, len(messages), workers)
        outcome = costs(outcome, case, rounds, workers)
        for worker in workers:
            assert worker.terminate() == 0, worker.tail()
    return outcome


def report(case: Case, outcomes: list[Outcome]) -> None:
    """One line: medians of the repeats, holds of all of them."""
    loss = figure(f"{case}: loss", [each.loss for each in outcomes], "squared loss")
    rate = figure(f"{case}: throughput", [each.rate for each in outcomes], "examples/s")
    line = f"  {case!s:34} {loss:6.3f}   {rate:9,.0f}"
    if outcomes[0].holds:
        held = figure(f"{case}: held", [statistics.median(each.holds) for each in outcomes], "s")
        longest = figure(f"{case}: longest held", [max(each.holds) for each in outcomes], "s")
        written = figure(f"{case}: written a round and partition", [each.written / 1e6 for each in outcomes], "MB")
        read = figure(f"{case}: read a round and partition", [each.read / 1e6 for each in outcomes], "MB")
        line += f"   {held:6.2f} {longest:6.2f}   {written:6.2f} {read:6.2f}"
    print(line, flush=True)


def report_stages(case: Case, outcomes: list[Outcome]) -> None:
    """One line for each stage."""
    columns = zip(*(row for each in outcomes for row in each.stages), strict=True)
    for (moment, what), seconds in zip(STAGES, columns, strict=True):
        print(f"    {figure(f'{case}: {moment}', list(seconds), 's'):6.3f} s  until {moment} ({what})", flush=True)


def main() -> None:
    """Bring a broker, or use the one named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=8, help="into which the stream is cut")
    parser.add_argument("--repeats", type=int, default=3, help="of each case")
    parser.add_argument("--partitions", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--patience", default="forever", help="with less, a partition may be late, which is an error")
    parser.add_argument("--modes", nargs="+", default=["off", "average"])
    parser.add_argument("--timeline", action="store_true", help="where the time of a hold goes")
    asked = parser.parse_args()
    print(header("confluent-kafka", "numba", "numpy"))
    messages = planted_messages(asked.examples)
    print(f"{asked.examples:,} planted examples, {asked.rounds} rounds, 2^{BITS} slots, medians of {asked.repeats}:")
    print(f"  {'':34} {'loss':>6}   {'examples/s':>9}   {'held':>5} {'longest':>7} s  {'written':>7} {'read':>5} MB")
    known: dict[tuple[int, str], set[float]] = {}
    with broker() as (bootstrap, directory):
        for case in itertools.starmap(Case, itertools.product(asked.partitions, asked.workers, asked.modes)):
            outcomes = [
                run_case(bootstrap, case, messages, asked.rounds, directory, asked.patience)
                for _ in range(max(asked.repeats, 1))
            ]
            losses = known.setdefault((case.partitions, case.mode), {outcomes[0].loss})
            losses.update(each.loss for each in outcomes)
            assert len(losses) == 1, f"{case}: expected one loss, however many workers, found {sorted(losses)}"
            report(case, outcomes)
            if asked.timeline and outcomes[0].stages:
                report_stages(case, outcomes)


if __name__ == "__main__":
    main()
