"""The schemas of a registry with Confluent's protocol; each is asked for once and kept.

A registry that does not answer is asked again and again: the records may be readable later, so they must not become
dead letters. A registry that does answer decides: if a schema can't be read, or still does not exist after some
seconds, its records are dead letters.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import structlog

from stream_apple.adapters.registry.payloads import Parse, SchemaError
from stream_apple.adapters.registry.registry_client import AnswerError, MissingError, RegistryClient
from stream_apple.config import Config
from stream_apple.config.secrets import conceal
from stream_apple.errors import BrokerError
from stream_apple.records.framing import SchemaId
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError, parsed_json

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

PATIENCE_S = 15.0
"""Seconds for which a schema that the registry says it does not have may still come, as one that was just registered
does; and seconds that a command waits for a registry that does not answer. A worker holds the partition instead."""
_REGISTER_S = 60.0  # a worker may start together with its registry
_AGAIN_S, _AGAIN_MOST_S = 0.5, 15.0
_LARGEST_NUMBER = 2**31 - 1
_MOST_ASKING = 8
"""How many schemas are asked for at the same time: bytes that only look like frames may name any number of them."""
_MOST_AWAITED = 100_000
_LONGEST_FAULT = 400
_NEVER = float("inf")

_log = structlog.get_logger()


class _Awaited(NamedTuple):
    """A schema that is not known.

    fault    why; "" until the registry has answered, or failed to
    again    seconds of the clock at which it is asked for again; infinite while it is
    since    seconds of the clock at which it was first needed
    wait_s   between the last two times
    missing  whether the registry has answered, the last time, that it does not have the schema
    refused  whether its records are dead letters, because the registry has said so long enough after `since`
    """

    fault: str
    again: float
    since: float
    wait_s: float = _AGAIN_S
    missing: bool = False
    refused: bool = False


class SchemaRegistry:
    """Reads framed records. Any thread may call it; ConfigurationError for properties that no client takes.

    patience_s  for how many seconds `parsed` waits for a schema, and for which the registry may not have it
    """

    def __init__(
        self,
        properties: Mapping[str, str | float | bool],
        now: Callable[[], float] = time.monotonic,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._url = str(properties["url"])
        self._client = RegistryClient(properties)
        self._now = now
        self._patience_s = patience_s
        self._parsers: dict[SchemaId, Parse] = {}
        self._awaited: dict[SchemaId, _Awaited] = {}
        self._asking = 0
        self._logged_at = -_NEVER  # when a schema that does not exist was last logged
        self._registered: dict[str, int] = {}
        self._lock = threading.Lock()

    def known(self, schema: SchemaId) -> bool:
        """Return whether records of the schema can be read or refused; if not, another thread asks the registry.

        That happens at most every 15 seconds, at first more often. A refused schema is asked for again, too: it may
        have been registered since.
        """
        if schema in self._parsers or _is_impossible(schema):
            return True
        with self._lock:
            if schema in self._parsers:  # since a moment ago
                return True
            now = self._now()
            last = self._awaited.get(schema)
            if last is None:
                self._forget()
                last = self._awaited[schema] = _Awaited("", now, now)
            if last.again <= now and self._asking < _MOST_ASKING:
                self._asking += 1
                self._awaited[schema] = last._replace(again=_NEVER)
                threading.Thread(target=self._ask, args=(schema, last), name="schema", daemon=True).start()
                return False
            return last.refused and last.again != _NEVER

    def fault(self, schema: SchemaId) -> str:
        """Return why the schema is not known yet; "" while the first answer is awaited."""
        awaited = self._awaited.get(schema)
        return "" if awaited is None else awaited.fault

    def parsed(self, schema: SchemaId, payload: bytes) -> object:
        """Return what a payload of this schema holds; RefusedError if it is none, or if the schema can't be read.

        BrokerError if the registry does not answer.
        """
        parse = self._parsers.get(schema) or self._parser(schema)
        return parse(payload)

    def registered(self, subject: str, schema: str) -> int:
        """Return the number of an Avro schema, registered under `subject` if it is not; BrokerError if that fails.

        The registry is asked once, and again for a minute.
        """
        found = self._registered.get(subject)
        deadline, fault = self._now() + _REGISTER_S, ""
        while found is None:
            if self._now() > deadline:
                raise BrokerError(
                    f"registry.url: expected {self._url} to register the schema of {subject}, found: {fault}"
                )
            try:
                found = self._client.register(subject, schema)
            except AnswerError as error:
                fault = conceal(str(error))
                time.sleep(_AGAIN_S)
        self._registered[subject] = found
        return found

    def _parser(self, schema: SchemaId) -> Parse:
        """Return the parser of a schema as soon as it is known; RefusedError and BrokerError as of `parsed`."""
        if _is_impossible(schema):
            _refuse(schema, f"the numbers of schemas end at {_LARGEST_NUMBER:,}")
        deadline = self._now() + self._patience_s
        while schema not in self._parsers:
            known, late = self.known(schema), self._now() > deadline
            last = self._awaited.get(schema)
            # A schema that is being asked for again may still be refused: whoever reads has been let pass.
            if last is not None and (last.refused or (late and last.missing)):
                _refuse(schema, f"the registry answers: {last.fault}")
            if late:
                raise BrokerError(
                    f"registry.url: expected schema {schema} from {self._url} within {self._patience_s:g} s, "
                    f"found: {self.fault(schema) or 'no answer'}"
                )
            if not known:
                time.sleep(0.02)
        return self._parsers[schema]

    def _ask(self, schema: SchemaId, last: _Awaited) -> None:
        parser = self._answered(schema, last)
        with self._lock:
            self._asking -= 1
            if parser is not None:
                self._parsers[schema] = parser
                self._awaited.pop(schema, None)

    def _answered(self, schema: SchemaId, last: _Awaited) -> Parse | None:
        """Ask the registry for a schema, and return its parser; None if it is still awaited."""
        try:
            found, referenced = self._client.schema(schema)
            return _parser_of(found, referenced)
        except SchemaError as error:
            # It becomes part of dead letters, which are UTF-8.
            fault = conceal(str(error)).encode(errors="backslashreplace").decode()[:_LONGEST_FAULT]
            _log.warning("schema_refused", schema=schema, error=fault)
            return _refusing(schema, fault)
        except MissingError as error:
            fault = str(error)
            # A schema is registered before its first record is written. So it is late, however late it was asked for.
            refused = last.refused or self._now() - last.since >= self._patience_s
            # Bytes that only look like frames name ever other schemas, and each dead letter has the reason.
            if refused and not last.refused and self._now() >= self._logged_at + _AGAIN_MOST_S:
                self._logged_at = self._now()
                _log.warning("schema_refused", schema=schema, error=fault)
            self._put_off(schema, last._replace(fault=fault, missing=True, refused=refused))
        except AnswerError as error:
            self._put_off(schema, last._replace(fault=conceal(str(error)), missing=False))
        except Exception as error:  # noqa: BLE001  of this machine: no memory, no space, no process
            fault = conceal(f"{type(error).__name__}: {error}")
            self._put_off(schema, last._replace(fault=fault, missing=False))
        return None

    def _put_off(self, schema: SchemaId, awaited: _Awaited) -> None:
        """Have the schema asked for again later."""
        with self._lock:
            again, wait_s = self._now() + awaited.wait_s, min(2 * awaited.wait_s, _AGAIN_MOST_S)
            self._awaited[schema] = awaited._replace(again=again, wait_s=wait_s)

    def _forget(self) -> None:
        """Forget the schemas that are awaited, if there are very many, but for those that are being asked for."""
        if len(self._awaited) >= _MOST_AWAITED:
            self._awaited = {each: kept for each, kept in self._awaited.items() if kept.again == _NEVER}


def _parser_of(schema: "Schema", referenced: Mapping[str, str]) -> Parse:
    """Return the parser of the payloads of one schema; `referenced` has the schemas that it refers to, by name."""
    text, kind = str(schema.schema_str), schema.schema_type or "AVRO"
    if kind == "JSON":
        return parsed_json
    # Each brings a library along, which a topic of the other format does without.
    if kind == "AVRO":
        from stream_apple.adapters.registry.avro_payloads import avro_parser

        return avro_parser(text, list(referenced.values()))
    if kind == "PROTOBUF":
        from stream_apple.adapters.registry.protobuf_payloads import protobuf_parser

        return protobuf_parser(text, referenced)
    raise SchemaError("it is of no type that is read: AVRO, PROTOBUF, or JSON")


def _is_impossible(schema: SchemaId) -> bool:
    """Return whether this is the number of no schema: bytes that only look like a frame."""
    return isinstance(schema, int) and schema > _LARGEST_NUMBER


def _refusing(schema: SchemaId, fault: str) -> Parse:
    """Return the parser of a schema that can't be read."""

    def parse(_: bytes) -> object:
        _refuse(schema, fault)

    return parse


def _refuse(schema: SchemaId, fault: str) -> NoReturn:
    raise RefusedError(Reason.MALFORMED, f"a schema that can be read ({fault})", f"schema {schema}")


def registry_of(config: Config, patience_s: float = PATIENCE_S) -> SchemaRegistry | None:
    """Return the registry that the configuration names, None if it names none; ConfigurationError as above."""
    return SchemaRegistry(config.registry, patience_s=patience_s) if config.registry else None
