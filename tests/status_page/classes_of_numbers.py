"""A model of classes whose features are numbers."""

import numpy as np
from support.records import HOUR, SETTINGS, START, TOPIC, FakeRecord

from stream_apple.learners.apple.options import Options
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage

LIMITS = SETTINGS.limits._replace(classes=3)


def number_records(count: int) -> list[FakeRecord]:
    """Over ten hours; which of three bands of `price` it is, unless `size` is large; class 2 of six in seven."""
    rng, records = np.random.default_rng(4), []
    for at in range(count):
        price, size = (float(np.float32(value)) for value in rng.uniform(-9, 9, 2))
        label = 0.0 if price < -7.5 else 1.0 if price > 7.5 and size < 5 else 2.0
        payload = encode_example(Example(label, 1.0, at, {"price": price, "size": size}))
        records.append(FakeRecord(0, at, payload, START + at * 10 * HOUR // count, None))
    return records


def model_of_numbers(count: int = 2000) -> tuple[PartitionModel, Names]:
    """One that has learned so many."""
    options, names = Options(loss="softmax", classes=3, bits=14), Names()
    settings = SETTINGS._replace(options=options, limits=LIMITS)
    model = PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), settings, Decoder(LIMITS))
    records = number_records(count)
    names.add(names_in(records[0].value()))
    model.process(records)
    return model, names
