"""A topic in Avro, Protocol Buffers and JSON Schema, with a real registry that is down at the wrong moment."""

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from support.command import call_command, run_command
from support.local_http import metric
from support.required import UnavailableError, unavailable
from support.schema_registry import Registry, resolve_registry
from support.topics import TopicFactory, create_worker_topics, read_to_end
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.records.message.prediction_formats import decode_prediction

EACH = 400
NO_SCHEMA = (1 << 31) - 1
INPUT = {"label": "delayed", "timestamp": "scheduled", "features": "*"}
SETTINGS = [
    *("--label", "delayed", "--timestamp", "scheduled", "--features", "*"),
    *("--loss", "logistic", "--bits", "12", "--epoch-length", "1h", "--max-ahead", "30d", "--test-fraction", "0"),
    "--json",
]
FIELDS = [
    {"name": "delayed", "type": "boolean"},
    {"name": "scheduled", "type": "double"},
    {"name": "carrier", "type": "string"},
    {"name": "distance", "type": ["null", "double"], "default": None},
]
ORIGIN = {
    "name": "origin",
    "type": {"type": "record", "name": "Origin", "fields": [{"name": "airport", "type": "string"}]},
}
FIRST = {"type": "record", "name": "Flight", "fields": FIELDS}
SECOND = {"type": "record", "name": "Flight", "fields": [*FIELDS, {"name": "origin", "type": "Origin"}]}
PROTO = """
syntax = "proto3";
message Origin { string airport = 1; }
message Flight {
  bool delayed = 1;
  double scheduled = 2;
  string carrier = 3;
  optional double distance = 4;
  Origin origin = 5;
}
"""


@pytest.fixture(scope="module")
def own_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry of these tests alone."""
    try:
        jars = resolve_registry()
    except UnavailableError as error:
        unavailable(str(error))
    registry = Registry(tmp_path_factory.mktemp("registry"), jars)
    yield registry
    registry.kill()


@pytest.fixture
def registry(own_registry: Registry) -> Registry:
    """The registry, running, though another test may have left it dead."""
    if not own_registry.running:
        own_registry.start()
    return own_registry


def flights(count: int) -> list[dict[str, Any]]:
    """One every ten seconds; those of one carrier are delayed from one airport."""
    rng = random.Random(7)
    found: list[dict[str, Any]] = []
    for number in range(count):
        carrier, airport = rng.choice(["AA", "UA", "DL"]), rng.choice(["JFK", "EWR"])
        delayed = rng.random() < (0.8 if carrier == "UA" and airport == "JFK" else 0.1)
        distance = rng.choice([float(rng.randrange(100, 3000)), None])
        flight: dict[str, Any] = {"delayed": delayed, "scheduled": 1_700_000_000.0 + 10 * number, "carrier": carrier}
        flight["distance"] = distance
        if number >= EACH:
            flight["origin"] = {"airport": airport}
        found.append(flight)
    return found


def framed(schema: int, payload: bytes) -> bytes:
    """As every client of Confluent's does."""
    return b"\0" + schema.to_bytes(4, "big") + payload


def flight_message() -> Any:
    """The class of Protocol Buffers, made by hand."""
    kinds = FieldDescriptorProto
    flight = DescriptorProto(name="Flight", oneof_decl=[{"name": "_distance"}])
    for number, (name, kind) in enumerate(
        [("delayed", kinds.TYPE_BOOL), ("scheduled", kinds.TYPE_DOUBLE), ("carrier", kinds.TYPE_STRING)], start=1
    ):
        flight.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    flight.field.add(
        name="distance",
        number=4,
        type=kinds.TYPE_DOUBLE,
        label=kinds.LABEL_OPTIONAL,
        oneof_index=0,
        proto3_optional=True,
    )
    flight.field.add(name="origin", number=5, type=kinds.TYPE_MESSAGE, type_name=".Origin", label=kinds.LABEL_OPTIONAL)
    origin = DescriptorProto(name="Origin")
    origin.field.add(name="airport", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto(name="flight.proto", syntax="proto3", message_type=[origin, flight]))
    return GetMessageClass(pool.FindMessageTypeByName("Flight"))


class Writer:
    """Writes flights in each format, by Confluent's own client where it needs no generated code."""

    def __init__(self, client: SchemaRegistryClient, topic: str) -> None:
        self._context = SerializationContext(topic, MessageField.VALUE)
        self._avro = AvroSerializer(client, json.dumps(FIRST))
        origin = client.register_schema("origin", Schema(json.dumps(ORIGIN["type"]), "AVRO"))
        assert origin
        reference = SchemaReference("Origin", "origin", 1)
        self._second = client.register_schema("second-value", Schema(json.dumps(SECOND), "AVRO", [reference]))
        self._protobuf = client.register_schema("proto-value", Schema(PROTO, "PROTOBUF"))
        described = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
        self._json = client.register_schema("json-value", Schema(described, "JSON"))
        self._message = flight_message()

    def avro(self, flight: dict[str, Any]) -> bytes:
        """By the schema that knows of no origin."""
        return self._avro(flight, self._context) or b""

    def second_avro(self, flight: dict[str, Any]) -> bytes:
        """By a schema that refers to another one."""
        stream = io.BytesIO()
        schema = SECOND | {"fields": [*FIELDS, ORIGIN]}
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, {}, _write_hint=False), flight)
        return framed(self._second, stream.getvalue())

    def protobuf(self, flight: dict[str, Any]) -> bytes:
        """The second message of its schema."""
        held = {name: value for name, value in flight.items() if value is not None}
        return framed(self._protobuf, b"\x02\x02" + self._message(**held).SerializeToString())

    def json(self, flight: dict[str, Any]) -> bytes:
        """JSON behind a frame."""
        return framed(self._json, json.dumps(flight).encode())


def test_each_format_and_a_registry_that_is_down(
    kafka: str, topic: TopicFactory, registry: Registry, tmp_path: Path
) -> None:
    """One model learns from all formats what it would from JSON; what can't be read yet waits, and others go on."""
    topics = create_worker_topics(topic, 2)
    records = flights(4 * EACH)
    with SchemaRegistryClient({"url": registry.url}) as client:
        writer = Writer(client, topics["examples"])
        forms = [writer.avro, writer.json, writer.protobuf, writer.second_avro]
        values = [forms[number // EACH](record) for number, record in enumerate(records)]
    config = write_config(
        tmp_path / "worker.toml",
        kafka,
        topics=topics,
        input=INPUT,
        registry={"url": registry.url},
        learner={"loss": "logistic", "bits": 12},
        epochs={"length": "1h", "max_ahead": "30d"},
        worker={"group": f"framed-{topics['examples']}", "snapshot_interval": "1s"},
    )
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def send(values: list[bytes], partition: int = 0) -> None:
        for value in values:
            producer.produce(topics["examples"], value, partition=partition)
        assert producer.flush(DEADLINE_S) == 0

    def answered(partition: int) -> int:
        return len(read_to_end(kafka, topics["predictions"], 2)[partition])

    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        send(values[: 3 * EACH])
        worker.wait_until(lambda: answered(0) == 3 * EACH, "three formats are answered", pause_s=0.3)
        worker.wait_for_event("snapshot_written")
        registry.kill()
        send(values[3 * EACH :])
        waiting = worker.wait_for_event("schema_awaited", partition=0, offset=3 * EACH)
        assert "Connect" in waiting["error"]
        send(values[:EACH], partition=1)
        worker.wait_until(lambda: answered(1) == EACH, "the other partition goes on", pause_s=0.3)

        def waited() -> bool:
            return metric(worker.http_port, "stream_apple_schema_wait_seconds", partition="0")[0] > 1.0

        worker.wait_until(waited, "the metric tells for how long", pause_s=0.3)
        assert metric(worker.http_port, "stream_apple_schema_wait_seconds", partition="1") == [0.0]
        worker.kill()
    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        assert answered(0) == 3 * EACH
        worker.wait_for_event("schema_awaited", partition=0)
        registry.start()
        worker.wait_until(lambda: answered(0) == 4 * EACH, "the registry is there again", pause_s=0.3)
        worker.wait_for_event("schema_found")
        send([values[0][:-1]])
        worker.wait_until(
            lambda: read_to_end(kafka, topics["dead_letters"])[0], "a broken record is refused", pause_s=0.3
        )
        send([framed(NO_SCHEMA, b"x"), *values[:1]], partition=1)
        missing = worker.wait_for_event("schema_refused", schema=NO_SCHEMA)
        assert "40403" in missing["error"]
        worker.wait_until(lambda: answered(1) == EACH + 1, "the partition continues", pause_s=0.3)
        assert worker.terminate() == 0
    letters = read_to_end(kafka, topics["dead_letters"])[0]
    assert [each.value() for each in letters] == [values[0][:-1], framed(NO_SCHEMA, b"x")]

    file = tmp_path / "flights.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    evaluated = call_command("evaluate", file, *SETTINGS)
    assert evaluated.returncode == 0, evaluated.stderr
    facts = json.loads(evaluated.stdout)
    predictions = [decode_prediction(each.value() or b"") for each in read_to_end(kafka, topics["predictions"], 2)[0]]
    losses = np.array([each["loss"] for each in predictions], np.float64)
    assert float(np.cumsum(losses)[-1]) / len(records) == facts["progressive_loss"]

    verified = run_command("verify", "--config", config)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_answers_in_avro(kafka: str, topic: TopicFactory, registry: Registry, tmp_path: Path) -> None:
    """Confluent's own deserialiser reads them by the schema that the worker has registered; all of them are proved."""
    topics = create_worker_topics(topic)
    config = write_config(
        tmp_path / "worker.toml",
        kafka,
        topics=topics,
        input=INPUT,
        registry={"url": registry.url},
        output={"format": "avro", "probabilities": "all"},
        learner={"loss": "softmax", "classes": 2, "bits": 12},
        epochs={"length": "1h", "max_ahead": "30d"},
    )
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number, flight in enumerate(flights(EACH)):
        producer.produce(topics["examples"], json.dumps(flight | {"id": f"f{number}"}).encode(), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        worker.wait_until(
            lambda: len(read_to_end(kafka, topics["predictions"])[0]) == EACH, "all are answered", pause_s=0.3
        )
        assert worker.terminate() == 0
    context = SerializationContext(topics["predictions"], MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)
        told = [read(each.value() or b"", context) for each in read_to_end(kafka, topics["predictions"])[0]]
        assert client.get_latest_version(f"{topics['predictions']}-value").version == 1
    for number, each in enumerate(told):
        assert each is not None
        assert each["id"] == f"f{number}"
        assert each["offset"] == number
        assert max(each["probabilities"]) == each["probability"]
        assert sum(each["probabilities"]) == pytest.approx(1.0)
    for command in ("verify", "tail"):
        done = run_command(command, "--config", config)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "probability" in done.stdout
