"""A message that no producer in Python can send: librdkafka itself is asked, past the package that wraps it."""

import ctypes

from confluent_kafka import cimpl

_PRODUCER, _SECONDS_MS = 0, 30_000
_END, _TOPIC, _PARTITION, _VALUE, _COPY_FLAG, _HEADER = 0, 1, 3, 4, 7, 9  # as rdkafka.h numbers them
_COPY = 2


def send_with_header(bootstrap: str, topic: str, value: bytes, name: bytes) -> None:
    """Send a message to partition 0 whose one header has this name, in any bytes."""
    library = ctypes.CDLL(cimpl.__file__)
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
    configuration, error = ctypes.c_void_p(library.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
    assert library.rd_kafka_conf_set(configuration, b"bootstrap.servers", bootstrap.encode(), error, 512) == 0
    client = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, configuration, error, 512))
    size, one = ctypes.c_size_t(len(value)), ctypes.c_ssize_t(1)
    part = (_TOPIC, topic.encode(), _PARTITION, ctypes.c_int32(0), _VALUE, value, size, _COPY_FLAG, _COPY)
    assert library.rd_kafka_producev(client, *part, _HEADER, name, b"v", one, _END) == 0
    assert library.rd_kafka_flush(client, _SECONDS_MS) == 0
    library.rd_kafka_destroy(client)
