"""The schemas of a registry with Confluent's protocol; each is asked for once and kept.

If the registry does not give a schema, as it is down or has no such number, it is asked again and again: the records
may be readable later, so they must never become dead letters.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecodeError
from typing import TYPE_CHECKING, NamedTuple

from stream_apple.config import Config
from stream_apple.config.secrets import conceal
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.records.parsing import parsed_json

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

Parse = Callable[[bytes], object]
"""What a payload of one schema holds; RefusedError if it is none."""

PATIENCE_S = 15.0
"""Seconds that a command waits for a schema that it must know, more than a request may take; a worker holds the
partition instead."""
_REGISTER_S = 60.0  # a worker may start together with its registry
_AGAIN_S, _AGAIN_MOST_S = 0.5, 15.0
_DEFAULTS: dict[str, str | float | bool] = {"timeout": 10.0, "max.retries": 0}  # who asks again is this module
_ANSWER, _SCHEMA = "an answer", "a schema"
_EXTRA = "install the extra `registry`: pip install 'stream-apple[registry]'"


class _Asked(NamedTuple):
    """A schema that is not known yet.

    fault   why; "" until the registry has answered, or failed to
    again   seconds of the clock at which it is asked for again; infinite while it is
    wait_s  between the last two times
    """

    fault: str
    again: float
    wait_s: float


class SchemaRegistry:
    """Tells what framed records hold. Any thread may ask; ConfigurationError for properties that no client takes.

    patience_s  how many seconds `parsed` waits for a schema
    """

    def __init__(
        self,
        properties: Mapping[str, str | float | bool],
        now: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._url = str(properties["url"])
        self._client = _client(_DEFAULTS | dict(properties))
        self._now = now
        self._patience_s = patience_s
        self._parsers: dict[int, Parse] = {}
        self._asked: dict[int, _Asked] = {}
        self._registered: dict[str, int] = {}
        self._lock = threading.Lock()

    def known(self, schema: int) -> bool:
        """Whether the schema is known; if not, another thread asks for it, unless it has just been asked for."""
        if schema in self._parsers:
            return True
        with self._lock:
            last = self._asked.get(schema, _Asked("", self._now(), _AGAIN_S))
            if last.again <= self._now():
                self._asked[schema] = last._replace(again=float("inf"))
                threading.Thread(target=self._ask, args=(schema, last), name="schema", daemon=True).start()
        return False

    def fault(self, schema: int) -> str:
        """Return why the schema is not known yet; "" while the first answer is awaited."""
        asked = self._asked.get(schema)
        return "" if asked is None else asked.fault

    def parsed(self, schema: int, payload: bytes) -> object:
        """Return what a payload of this schema holds; RefusedError if it is none, BrokerError if nobody tells."""
        parse = self._parsers.get(schema) or self._awaited(schema)
        return parse(payload)

    def registered(self, subject: str, schema: str) -> int:
        """Return the number of an Avro schema, registered under `subject` if it is not; BrokerError if that fails.

        The registry is asked once, and again for a minute.
        """
        from confluent_kafka.schema_registry import Schema

        found = self._registered.get(subject)
        deadline, fault = self._now() + _REGISTER_S, ""
        while found is None:
            if self._now() > deadline:
                raise BrokerError(
                    f"registry.url: expected {self._url} to register the schema of {subject}, found: {fault}"
                )
            try:
                found = self._client.register_schema(subject, Schema(schema, "AVRO"))
            except Exception as error:  # noqa: BLE001  as below
                fault = conceal(_in_words(error, _ANSWER))
                time.sleep(_AGAIN_S)
        self._registered[subject] = found
        return found

    def _awaited(self, schema: int) -> Parse:
        deadline = self._now() + self._patience_s
        while not self.known(schema):
            if self._now() > deadline:
                raise BrokerError(
                    f"registry.url: expected schema {schema} from {self._url} within {self._patience_s:g} s, "
                    f"found: {self.fault(schema) or 'no answer'}"
                )
            time.sleep(0.02)
        return self._parsers[schema]

    def _ask(self, schema: int, last: _Asked) -> None:
        read = _ANSWER
        try:
            found = self._client.get_schema(schema)
            referenced = dict(self._references(found))
            read = _SCHEMA
            parser = _parser(found, referenced)
        except Exception as error:  # noqa: BLE001  of the HTTP client, or of a schema that no library reads: all is told
            fault = _in_words(error, read)
        else:
            self._parsers[schema] = parser
            return
        with self._lock:
            self._asked[schema] = _Asked(conceal(fault), self._now() + last.wait_s, min(2 * last.wait_s, _AGAIN_MOST_S))

    def _references(self, schema: "Schema") -> Iterator[tuple[str, str]]:
        """Yield name and text of all schemas that this one refers to, those that others build on first."""
        for reference in schema.references or ():
            found = self._client.get_version(str(reference.subject), int(reference.version or 0)).schema
            yield from self._references(found)
            yield str(reference.name), str(found.schema_str)


def _parser(schema: "Schema", referenced: Mapping[str, str]) -> Parse:
    """Return the parser of the payloads of one schema; `referenced` has the schemas that it refers to, by name."""
    text, kind = schema.schema_str or "", schema.schema_type or "AVRO"
    if kind == "JSON":
        return parsed_json
    # Each brings a library along, which a topic of the other format does without.
    if kind == "AVRO":
        from stream_apple.adapters.registry.avro_payloads import avro_parser

        return avro_parser(text, list(referenced.values()))
    if kind == "PROTOBUF":
        from stream_apple.adapters.registry.protobuf_payloads import protobuf_parser

        return protobuf_parser(text, referenced)
    raise ValueError(f"expected a schema of type AVRO, PROTOBUF or JSON, found {kind}")


def _in_words(error: Exception, read: str) -> str:
    """Return why there is no schema; `read` is what was read when the error came."""
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    if isinstance(error, SchemaRegistryError):
        # -1 is the client's: another server, such as a proxy, has answered.
        other = f"HTTP status {error.http_status_code} with {_ANSWER} that is no registry's"
        return other if error.error_code == -1 else str(error)
    if isinstance(error, JSONDecodeError):
        return f"{read} that is no JSON"
    # The client looks for parts of a registry's answer in whatever JSON it finds.
    if read == _ANSWER and isinstance(error, TypeError | AttributeError | LookupError):
        return f"{_ANSWER} that is no registry's"
    return f"{type(error).__name__}: {error}"


def registry_of(config: Config, patience_s: float = PATIENCE_S) -> SchemaRegistry | None:
    """Return the registry that the configuration names, None if it names none; ConfigurationError as above."""
    return SchemaRegistry(config.registry, patience_s=patience_s) if config.registry else None


def _client(properties: dict[str, str | float | bool]) -> "SchemaRegistryClient":
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(f"registry: expected the libraries of a registry, found {error}: {_EXTRA}") from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # else a line for each request
    try:
        return SchemaRegistryClient(properties)
    except (ValueError, TypeError, OSError) as error:
        raise ConfigurationError(f"registry: {conceal(str(error))}") from error
