"""A producer whose client reports a fatal error, as after fencing, without anybody who fences it."""

import ctypes
from pathlib import Path

import confluent_kafka
from confluent_kafka import KafkaError, Producer


def make_fatal(producer: Producer) -> None:
    """Have librdkafka report a fatal error, by the function that it has for tests."""
    (library,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*")
    report = ctypes.CDLL(str(library)).rd_kafka_test_fatal_error
    # The first field of the client's object, behind Python's own two.
    handle = ctypes.c_void_p.from_address(id(producer) + 2 * ctypes.sizeof(ctypes.c_void_p))
    assert report(handle, KafkaError.INVALID_PRODUCER_EPOCH, b"made for this test") == 0
