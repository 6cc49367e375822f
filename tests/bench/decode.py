"""Time per named feature decoded, and per prediction encoded: `python tests/bench/decode.py`.

Records are like those of the planted benchmark: 57 of 20,000 binary features, the low numbers more often.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Any

import fastavro
import msgpack
import numpy as np
from report import figure, header

from stream_apple.adapters.registry.avro_payloads import avro_parser
from stream_apple.adapters.registry.protobuf_payloads import protobuf_parser
from stream_apple.core.batch import Limits
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.prediction_formats import FormatName, PredictionFormat
from stream_apple.records.parsing import parsed_json
from stream_apple.records.record_reader import MappedReader

RECORDS, FEATURES, VOCABULARY, ROUNDS = 1000, 57, 20_000, 201
LIMITS = Limits(1000, 1_000_000, 1000.0, -10.0, 10.0, binary=False)


def nanoseconds(name: str, work: Callable[[], object], parts: int, part: str) -> str:
    """Median and quartiles of the time of `work` over its `parts`, each a `part`; kept as the figure `name`."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - start) / parts)
    low, _, high = statistics.quantiles(times, n=4)
    median = figure(name, times, f"ns/{part}")
    return f"{median:7.2f} ns  (quartiles {low:.2f} to {high:.2f})"


def batches() -> dict[str, list[bytes]]:
    """The same features in each of the three forms, as categories, and as JSON."""
    random = np.random.default_rng(1)
    share = 1 / np.arange(1, VOCABULARY + 1)
    share /= share.sum()
    rows = [random.choice(VOCABULARY, FEATURES, replace=False, p=share) for _ in range(RECORDS)]
    named = [{f"f{index}": True for index in row} for row in rows]
    forms: dict[str, Sequence[object]] = {
        "namespaces": [{"f": features} for features in named],
        "names": named,
        "packed, 64 bits": [{"indices": row.astype("<u8").tobytes()} for row in rows],
        "packed, 32 bits and values": [
            {"indices": row.astype("<u4").tobytes(), "values": np.ones(FEATURES, "<f4").tobytes()} for row in rows
        ],
        "names, values as 32-bit floats": [dict.fromkeys(features, 0.5) for features in named],
        "categories": [{f"f{index}": f"v{index}" for index in row} for row in rows],
    }
    forms |= {f"JSON, {form}": forms[form] for form in ("names", "categories")}
    forms["JSON, values of 17 digits"] = [{f"f{index}": random.random() for index in row} for row in rows]
    return {
        form: [
            _written({"label": index % 2, "id": f"user-{index}", "features": one}, form)
            for index, one in enumerate(features)
        ]
        for form, features in forms.items()
    }


def flat_records() -> dict[str, tuple[list[bytes], list[bytes]]]:
    """Records of ten fields, five numbers and five texts: as messages of the product's own, and flat."""
    random = np.random.default_rng(3)
    rows = [
        {f"n{field}": random.random() for field in range(5)} | {f"t{field}": f"v{row % 97}" for field in range(5)}
        for row in range(RECORDS)
    ]
    own, flat = [{"label": 1, "features": row} for row in rows], [{"clicked": 1, **row} for row in rows]
    found: dict[str, tuple[list[bytes], list[bytes]]] = {}
    for form, write in {"msgpack": msgpack.packb, "JSON": lambda row: json.dumps(row).encode()}.items():
        found[f"{form} of ten fields"] = [write(row) for row in own], [write(row) for row in flat]
    return found


class Known:
    """The schemas of framed records, by their numbers: Avro, Protocol Buffers, JSON."""

    def __init__(self) -> None:
        proto = "".join(f"double n{field} = {2 + field}; string t{field} = {7 + field};" for field in range(5))
        self._parsers = [
            avro_parser(json.dumps(AVRO), []),
            protobuf_parser(f'syntax = "proto3"; message R {{ double clicked = 1; {proto} }}', {}),
            parsed_json,
        ]

    def parsed(self, schema: int | str, payload: bytes) -> object:
        """Return what the payload holds."""
        return self._parsers[int(schema)](payload)

    def known(self, schema: int | str) -> bool:
        """All are."""
        return int(schema) < len(self._parsers)

    def fault(self, schema: int | str) -> str:
        """Return nothing: there is none."""
        return f"{schema} is known"


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "clicked", "type": "double"}]
    + [{"name": f"n{field}", "type": "double"} for field in range(5)]
    + [{"name": f"t{field}", "type": "string"} for field in range(5)],
}


def framed_records(rows: list[bytes]) -> dict[str, list[bytes]]:
    """The same records, which are flat JSON, in the formats that have schemas."""
    parsed, schema = fastavro.parse_schema(AVRO), range(3)
    found: dict[str, list[bytes]] = {"Avro": [], "Protocol Buffers": [], "JSON Schema": []}
    frames = [b"\0" + number.to_bytes(4, "big") for number in schema]
    for row in rows:
        held, stream = json.loads(row), BytesIO()
        fastavro.schemaless_writer(stream, parsed, held)
        found["Avro"].append(frames[0] + stream.getvalue())
        found["Protocol Buffers"].append(frames[1] + b"\0" + _protobuf(held))
        found["JSON Schema"].append(frames[2] + row)
    return found


def _protobuf(held: dict[str, Any]) -> bytes:
    """The bytes of one message of `Known`, whose fields have single-byte tags and sizes."""
    parts = [b"\x09" + np.float64(held["clicked"]).tobytes()]
    for field in range(5):
        text = str(held[f"t{field}"]).encode()
        parts.append(bytes([(2 + field) << 3 | 1]) + np.float64(held[f"n{field}"]).tobytes())
        parts.append(bytes([(7 + field) << 3 | 2, len(text)]) + text)
    return b"".join(parts)


def _written(example: object, form: str) -> bytes:
    packed: bytes = msgpack.packb(example, use_single_float=True)
    return json.dumps(example).encode() if form.startswith("JSON") else packed


def main() -> None:
    """Print what was measured, on what."""
    print(header("numba", "numpy", "msgpack", "msgspec"))
    print(f"{RECORDS} records of {FEATURES} features, median of {ROUNDS} rounds, one thread")
    decoder = Decoder(LIMITS)
    for form, values in batches().items():
        size = sum(map(len, values)) / RECORDS
        spent = nanoseconds(f"decode, {form}", partial(decoder.decode, values), RECORDS * FEATURES, "feature")
        print(f"decode  {form:31} {size:6.0f} bytes a record  {spent} a feature")
    mapped = Decoder(LIMITS, reader=MappedReader(InputMapping(label="clicked", features="*")))
    for form, pair in flat_records().items():
        for way, chosen in {"as features": decoder, "by [input]": mapped}.items():
            name, given = f"{form}, {way}", pair[chosen is mapped]
            spent = nanoseconds(f"decode, {name}", partial(chosen.decode, given), RECORDS, "record")
            print(f"decode  {name:50}  {spent} a record")
    by_schema = Decoder(LIMITS, reader=MappedReader(InputMapping(label="clicked", features="*"), Known()))
    for form, values in framed_records(flat_records()["JSON of ten fields"][1]).items():
        spent = nanoseconds(f"decode, {form}", partial(by_schema.decode, values), RECORDS, "record")
        print(f"decode  {f'{form} of ten fields, framed':50}  {spent} a record")
    decoded = decoder.decode(batches()["names"])
    encoder = PredictionEncoder("examples", 3, "0123456789abcdef")
    numbers, offsets = np.random.default_rng(2).random(RECORDS), np.arange(RECORDS) + 123_456
    encode = partial(encoder.encode, decoded, 0, RECORDS, numbers, numbers, offsets, 489_123)
    spent = nanoseconds("encode", encode, RECORDS, "prediction")
    print(f"encode  msgpack  {spent} a prediction")
    messages = encode()
    others: tuple[FormatName, ...] = ("json", "avro")
    for name in others:
        written = PredictionFormat("one", name, lambda: 1).written
        spent = nanoseconds(f"encode, {name}", partial(written, messages), RECORDS, "prediction")
        print(f"encode  {name}, of that  {spent} a prediction")


if __name__ == "__main__":
    main()
