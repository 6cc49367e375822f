"""Why brokers do not answer: they refuse who we are, or something else is wrong.

A call that fails has timed out, whatever the reason; librdkafka tells the reason on the side, to an error callback that
is served only while the client is polled. So the question is asked by a client of its own, that is polled.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.admin import SILENT

_LISTEN_S = 3.0
_SLICE_S = 0.05

# What a broker says when it does not like our certificate, or that there is none.
_ALERT = re.compile(r"SSL routines:.*\balert\b")
# A handshake that ends without a word is one of a broker that is going away, or of a listener without TLS.
_HUNG_UP = "Disconnected"


def complaint(properties: Mapping[str, str | int | float | bool]) -> KafkaError | None:
    """The first thing that a new client has to complain of within three seconds, refusals before others."""
    heard: list[KafkaError] = []
    settings: dict[str, Any] = {**properties, "error_cb": heard.append, "logger": SILENT}
    client = AdminClient(settings)
    deadline = time.monotonic() + _LISTEN_S
    while time.monotonic() < deadline:
        client.poll(_SLICE_S)
        refusals = [error for error in heard if is_refusal(error)]
        if refusals:
            return refusals[0]
    return heard[0] if heard else None


def is_refusal(error: KafkaError) -> bool:
    """Whether a password, a token or a certificate is not accepted, by either side."""
    text = error.str()
    return (
        error.code() == KafkaError._AUTHENTICATION  # noqa: SLF001  librdkafka's own codes begin so
        or (error.code() == KafkaError._SSL and _HUNG_UP not in text)  # noqa: SLF001
        or bool(_ALERT.search(text))
    )
