"""Made-up input for tests of the worker: records as the port has them, good and bad, from a seed."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from support.bare_options import bare

from stream_apple.core.batch import Limits
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.log.ports import Header
from stream_apple.stream.model.dead_letters import Reject, dead_letter
from stream_apple.stream.model.partition_model import BatchResult, ModelSettings, PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits
from stream_apple.stream.positions.lineage import Lineage

HOUR = 3_600_000
START = 400_000 * HOUR
TOPIC = "examples"

SETTINGS = ModelSettings(
    bare(method="apple", loss="squared", bits=10, learning_rate=0.5, max_features_per_example=1000),
    Limits(max_features=16, max_record_bytes=400, max_weight=100.0, min_label=-10.0, max_label=10.0, binary=False),
    epoch_length_ms=HOUR,
    max_ahead_ms=24 * HOUR,
    reject_limits=RejectLimits(max_consecutive=1000, max_share=0.5),
)
DECODER = SETTINGS.decoder()
PLAIN_OPTIONS: dict[str, Any] = {"mixture": False, "drift": None}
"""What makes a learner of one predictor of any other, with `dataclasses.replace`."""


class FakeRecord(NamedTuple):
    """A record of the examples topic, with the methods of `ports.Record`."""

    number: int
    at: int
    payload: bytes | None
    time_ms: int
    named: bytes | None = None
    extra: Sequence[Header] | None = None

    def partition(self) -> int:
        """Number of the partition."""
        return self.number

    def offset(self) -> int:
        """Position in the partition."""
        return self.at

    def key(self) -> bytes | None:
        """Key."""
        return self.named

    def value(self) -> bytes | None:
        """Value."""
        return self.payload

    def timestamp(self) -> tuple[int, int]:
        """Type 0, which is none, for negative times."""
        return (1, self.time_ms) if self.time_ms >= 0 else (0, -1)

    def headers(self) -> Sequence[Header] | Mapping[str, str | bytes | None] | None:
        """Headers."""
        return self.extra


def good(at: int, label: float | None = 1.0, hours: float = 0.0, partition: int = 0) -> FakeRecord:
    """One plain example at an offset, some hours after START."""
    payload = encode_example(Example(label, 1.0, at, {"a": 1.0, "b": 0.5}))
    return FakeRecord(partition, at, payload, START + int(hours * HOUR), b"k%d" % at)


def dead_letter_headers(reject: Reject, topic: str, model: str) -> list[Header]:
    """Those of the dead letter of a record that is not too large."""
    return dead_letter(reject, topic, model, SETTINGS.limits.max_record_bytes).headers


def stream(count: int, seed: int = 0, partition: int = 0, bad_share: float = 0.1) -> list[FakeRecord]:
    """`count` records over about six hours: mostly examples of a line with a kink, some unlabelled, some bad.

    Offsets have gaps, as the markers of transactions make them; times are out of order and now and then wrong.
    """
    return list(streaming(count, seed, partition, bad_share))


def streaming(count: int, seed: int = 0, partition: int = 0, bad_share: float = 0.1) -> Iterator[FakeRecord]:
    """The same records, each made when it is asked for."""
    draw = random.Random(seed * 1000 + partition)
    at = 0
    for number in range(count):
        at += 1 + (draw.random() < 0.05)
        names = draw.sample("abcdefghijklmnop", draw.randint(1, 6))
        features = {name: round(draw.uniform(-2, 2), 3) for name in names}
        label = sum(features.values()) + 2 * features.get("a", 0) * features.get("b", 0)
        example = Example(
            None if draw.random() < 0.1 else max(-10.0, min(10.0, round(label, 3))),
            draw.choice([1.0, 1.0, 2.0, 0.0]),
            draw.choice([None, at, f"id-{at}"]),
            features,
        )
        payload: bytes | None = encode_example(example)
        time_ms = START + number * 6 * HOUR // count + draw.randint(-600_000, 600_000)
        if draw.random() < bad_share:
            fault = draw.randrange(6)
            payload = [None, b"", payload, payload, b"\xc1", payload][fault]
            time_ms = [time_ms, time_ms, -1, START + 99 * HOUR, time_ms, 0][fault]
        extra = [("trace", b"%d" % at)] if draw.random() < 0.3 else None
        yield FakeRecord(partition, at, payload, time_ms, b"key-%d" % at, extra)


def new_model(partition: int = 0, start: int = 0, settings: ModelSettings = SETTINGS) -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, partition, Lineage(start, "0123456789abcdef"), settings, DECODER)


def process_in_batches(
    model: PartitionModel, records: Sequence[FakeRecord], cuts: Sequence[int] = ()
) -> list[BatchResult]:
    """Results of `records`, cut at the given indices."""
    places = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    return [model.process(records[start:stop]) for start, stop in pairwise(places) if start < stop]
