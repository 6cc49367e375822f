"""A stream whose label is the product of two named features among many: what there is to find is known."""

import random

from support.bare_options import bare
from support.records import DECODER, HOUR, START, TOPIC, FakeRecord

from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.model.reject_counter import RejectLimits
from stream_apple.stream.positions.lineage import Lineage

PAIR = "country=de \u00d7 price"
SETTINGS = ModelSettings(
    bare(bits=12), DECODER._limits, epoch_length_ms=HOUR, max_ahead_ms=24 * HOUR, reject_limits=RejectLimits(9, 1.0)
)


def features(draw: random.Random) -> tuple[dict[str, float], float]:
    """A handful of features, and the label: the product of price and country=de."""
    price = draw.choice([-1.0, 1.0])
    chosen = draw.choice(["de", "in", "jp"])
    noise = {f"noise{draw.randrange(20)}": draw.uniform(-1, 1) for _ in range(3)}
    return {"price": price, f"country={chosen}": 1.0, **noise}, 3.0 * price * (chosen == "de")


def planted(count: int, hours: int = 8, seed: int = 4) -> list[FakeRecord]:
    """Records over so many hours, one epoch each."""
    draw = random.Random(seed)
    records = []
    for at in range(count):
        found, label = features(draw)
        payload = encode_example(Example(label, 1.0, None, found))
        records.append(FakeRecord(0, at, payload, START + at * hours * HOUR // count))
    return records


def finder(records: list[FakeRecord]) -> tuple[PartitionModel, Names]:
    """A model that has learned them, and the names in them."""
    model = PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), SETTINGS, DECODER)
    model.process(records)
    names = Names()
    for record in records:
        names.add(names_in(record.payload))
    return model, names
