"""Properties of clients that are passed through: a registry's, and librdkafka's but for those that the worker sets."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from stream_apple.config.secrets import has_credentials

_Value = str | int | float | bool
_Given = dict[str, _Value]

DEFAULTS: _Given = {"bootstrap.servers": "localhost:9092"}

_OFFSETS = "offsets are committed inside the transaction, with the predictions they belong to"
_IDEMPOTENT = "the transactional producer sets it: exactly-once needs it"
_RESENT = "a commit that takes less time than this has sent no request twice"
_STOPPING = "a partition may move only after the transaction that holds its offsets"

OWNED = {
    "acks": _IDEMPOTENT,
    "auto.commit.interval.ms": _OFFSETS,
    "auto.offset.reset": "an offset that is gone would be a gap in the model: it must stop the worker",
    "delivery.report.only.error": "the commit of the transaction reports delivery",
    "enable.auto.commit": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "enable.idempotence": _IDEMPOTENT,
    "enable.partition.eof": "the worker decides itself which events it hears",
    "group.id": "set worker.group",
    "group.instance.id": "it derives from worker.id",
    "group.protocol": _STOPPING,
    "group.remote.assignor": _STOPPING,
    "isolation.level": "an example of an aborted transaction must not be learned",
    "metadata.broker.list": "set bootstrap.servers",
    "partition.assignment.strategy": _STOPPING,
    "request.required.acks": _IDEMPOTENT,
    "retry.backoff.max.ms": _RESENT,
    "retry.backoff.ms": _RESENT,
    "transactional.id": "it derives from worker.group and worker.id",
}
"""Properties that the worker sets itself, and why."""

_UNDERSCORED = "log_level"
_BROKERS = "bootstrap.servers"
_ADDRESS = re.compile(r"((?i:(sasl_)?(plaintext|ssl))://)?(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?/?\Z")
_PORT = re.compile(r":([0-9]{1,5})/?\Z")
_LARGEST = 65_535
_NUMBERS = frozenset(
    {"timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity", "cache.latest.ttl.sec"}
)


def property_of_variable(key: str) -> str:
    """Return the property that the last part of an environment variable names: `SASL_PASSWORD` is sasl.password."""
    name = key.lower()
    return name if name == _UNDERSCORED else name.replace("_", ".")


def _passed_through(name: str) -> str:
    if name in OWNED:
        raise ValueError(f"this property is the worker's own: {OWNED[name]}")
    # Every other property with an underscore is a callback or a pointer, which no text can set.
    if not name or ("_" in name and name != _UNDERSCORED):
        raise ValueError("expected a librdkafka property: words joined by dots")
    return name


def _scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise ValueError("expected text, a number, true or false")  # noqa: TRY004  pydantic turns only ValueError into a fault
    # Python keeps bytes of the environment that are not UTF-8 as surrogates.
    if isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        raise ValueError("expected text in UTF-8 without NUL, where the client would cut it")
    return value


def _without_credentials(given: _Given) -> _Given:
    for name, value in given.items():
        if has_credentials(name, value):
            raise ValueError(f"{name}: expected an address without user and password, which have their own properties")
    return given


def _with_brokers(given: _Given) -> _Given:
    """Return the properties; ValueError for addresses that the client would accept, and try to reach for ever."""
    found = str(given.get(_BROKERS, DEFAULTS[_BROKERS]))
    addresses = [address.strip() for address in found.split(",") if address.strip()]
    ports = [int(port[1]) for address in addresses if (port := _PORT.search(address))]
    if not addresses or not all(map(_ADDRESS.match, addresses)) or not all(0 < port <= _LARGEST for port in ports):
        raise ValueError(f"{_BROKERS}: expected addresses such as host:9092, separated by commas, found {found!r}")
    return given


def _with_url(given: _Given) -> _Given:
    """Return the properties; ValueError if there are any but no `url`."""
    if given and not str(given.get("url", "")).startswith(("http://", "https://")):
        found = repr(given["url"]) if "url" in given else "none"
        raise ValueError(f"url: expected the address of a registry, such as http://registry:8081, found {found}")
    return given


def _with_numbers(given: _Given) -> _Given:
    """Return the properties, with numbers where the registry's client needs them, as the environment has only texts."""
    found = dict(given)
    for name in _NUMBERS.intersection(given):
        try:
            found[name] = float(given[name])
        except ValueError:
            raise ValueError(f"{name}: expected a number, found {given[name]!r}") from None
    return found


KafkaProperties = Annotated[
    dict[
        Annotated[str, AfterValidator(_passed_through)],
        Annotated[_Value, BeforeValidator(_scalar)],
    ],
    AfterValidator(_without_credentials),
    AfterValidator(_with_brokers),
    AfterValidator(lambda given: DEFAULTS | given),
]
"""Property name -> value, as `confluent_kafka` takes it; bootstrap.servers is always there."""

RegistryProperties = Annotated[
    dict[str, Annotated[_Value, BeforeValidator(_scalar)]],
    AfterValidator(_without_credentials),
    AfterValidator(_with_url),
    AfterValidator(_with_numbers),
]
"""Property name -> value, as the registry client of `confluent_kafka` takes it; none, or `url` is there."""
