"""The HTTP client of a schema registry: confluent-kafka's, with answers of bounded size.

What a registry writes in an answer is never repeated, because it may repeat the credentials that it was sent: an error
is described by its numbers, and by the errors of this machine.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from json import JSONDecodeError
from typing import TYPE_CHECKING, cast

from stream_apple.adapters.registry.payloads import SchemaError
from stream_apple.config.secrets import conceal
from stream_apple.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx2
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

MOST_BYTES = 1_000_000
"""The most bytes of a schema, with all schemas that it refers to."""
_MOST_ANSWER_BYTES = 2 * MOST_BYTES  # JSON escapes quotes and ends of lines
_MOST_REFERENCES = 200
_ANSWER_S = 10.0
_DEFAULTS: dict[str, str | float | bool] = {"timeout": _ANSWER_S, "max.retries": 0}  # `SchemaRegistry` asks again
_EXTRA = "install the extra `registry`: pip install 'stream-apple[registry]'"
_OTHER = "an answer that is no registry's"
_MISSING = {40401: "no such subject", 40402: "no such version", 40403: "no such schema"}
"""Error codes of a registry that has looked, and does not have what was asked for."""


class MissingError(Exception):
    """The registry says that it does not have the schema, or one that it refers to."""


class AnswerError(Exception):
    """The registry has not answered, or something else has; the text says what was found."""


class RegistryClient:
    """Asks a registry. Any thread may; ConfigurationError for properties that no client takes."""

    def __init__(self, properties: Mapping[str, str | float | bool]) -> None:
        self._client = _client(_DEFAULTS | dict(properties))

    def schema(self, schema: int | str) -> tuple["Schema", dict[str, str]]:
        """Return the schema of this number or GUID, and the texts of those that it refers to, by name.

        Schemas that others build on come first. MissingError if the registry does not have one of them, SchemaError if
        they are larger than MOST_BYTES together, AnswerError for everything else.
        """
        client = self._client
        try:
            found = client.get_schema(schema) if isinstance(schema, int) else client.get_schema_by_guid(schema)
            referenced: dict[str, str] = {}
            self._gather(found, referenced, set(), len(_text_of(found)))
        except Exception as error:  # noqa: BLE001  of the client, and of its HTTP library
            raise _in_words(error) from None
        return found, referenced

    def register(self, subject: str, schema: str) -> int:
        """Return the number of an Avro schema, registered under `subject` if it is not; AnswerError if that fails."""
        from confluent_kafka.schema_registry import Schema

        try:
            return self._client.register_schema(subject, Schema(schema, "AVRO"))
        except Exception as error:  # noqa: BLE001  as above
            raise AnswerError(str(_in_words(error))) from None

    def _gather(self, schema: "Schema", found: dict[str, str], seen: set[str], size: int) -> int:
        """Add the schemas that one refers to; return the size of all, in addition to `size`."""
        for reference in schema.references or ():
            name = str(reference.name)
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _MOST_REFERENCES:
                raise SchemaError(f"it refers to more than {_MOST_REFERENCES} schemas")
            inner = self._client.get_version(str(reference.subject), int(reference.version or 0)).schema
            size = self._gather(inner, found, seen, size + len(_text_of(inner)))
            found[name] = _text_of(inner)
        if size > MOST_BYTES:
            raise SchemaError(f"it is larger than {MOST_BYTES:,} bytes with the schemas that it refers to")
        return size


def _text_of(schema: "Schema") -> str:
    text = schema.schema_str
    if not isinstance(text, str) or not text:
        raise AnswerError(_OTHER)
    return text


def _in_words(error: Exception) -> MissingError | AnswerError | SchemaError:
    """Return an error that says why there is no answer, without any text of the registry."""
    import httpx2
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

    if isinstance(error, MissingError | AnswerError | SchemaError):
        return error
    if isinstance(error, SchemaRegistryError):
        status, code = error.http_status_code, cast("object", error.error_code)  # of whatever JSON there is
        # Below zero is the client's own code: another server, such as a proxy, has answered.
        if not isinstance(code, int) or code < 0:
            return AnswerError(f"HTTP status {status} with {_OTHER}")
        if code in _MISSING:
            return MissingError(f"{_MISSING[code]} (HTTP status {status}, error code {code})")
        return AnswerError(f"an error of the registry (HTTP status {status}, error code {code})")
    if isinstance(error, OAuthTokenError):
        return AnswerError("no token for the registry (settings registry.'bearer.auth.*')")
    if isinstance(error, JSONDecodeError):
        return AnswerError("an answer that is not JSON")
    if isinstance(error, OSError | httpx2.ConnectError | httpx2.TimeoutException):
        return AnswerError(f"{type(error).__name__}: {error}")
    # The client looks for parts of a registry's answer in whatever JSON it finds.
    if isinstance(error, ValueError | TypeError | AttributeError | LookupError | RecursionError):
        return AnswerError(_OTHER)
    return AnswerError(f"no answer ({type(error).__name__})")


def _client(properties: dict[str, str | float | bool]) -> "SchemaRegistryClient":
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(f"registry: expected the libraries of a registry, found {error}: {_EXTRA}") from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # else a line for each request
    try:
        client = SchemaRegistryClient(properties)
    except (ValueError, TypeError, OSError) as error:
        raise ConfigurationError(f"registry: {conceal(str(error))}") from error
    # The client has no public way to its HTTP session. It would read answers of any size, and decompress them.
    session = client._rest_client.session  # noqa: SLF001
    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"response": [_bound]}
    return client


def _bound(response: "httpx2.Response") -> None:
    """Have an answer read within bounds; it is called before the body is read."""
    import httpx2

    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise AnswerError("a compressed answer, which was not asked for")
    stream = cast("httpx2.SyncByteStream", response.stream)

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            size, deadline = 0, time.monotonic() + _ANSWER_S
            for chunk in stream:
                size += len(chunk)
                if size > _MOST_ANSWER_BYTES:
                    found = f"more than {_MOST_ANSWER_BYTES:,} bytes"
                    if response.status_code == 200 and "json" in response.headers.get("Content-Type", ""):
                        raise SchemaError(f"the registry's answer has {found}")
                    raise AnswerError(f"HTTP status {response.status_code} with an answer of {found}")
                if time.monotonic() > deadline:
                    raise AnswerError(f"an answer that took more than {_ANSWER_S:g} s")
                yield chunk

        def close(self) -> None:
            stream.close()

    response.stream = Bounded()
