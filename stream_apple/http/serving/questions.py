"""Splits the body of a request, JSON or msgpack, into instances, each as the bytes that came.

So the codec of the topic decodes an instance, and not a second one that might read it differently.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgpack
import msgspec

from stream_apple.records.message.reasons import Reason
from stream_apple.stream.model.instances import InstanceFault

_LONGEST_SHOWN = 60
_LETTER_ESCAPED = re.compile(rb"\\u00[67]")  # as no encoder writes a letter of ASCII


class BadRequestError(Exception):
    """The request can't be answered; `status` is of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Instance(NamedTuple):
    """One instance as it came.

    value      the value that a record of it would have: JSON or msgpack
    key        the key that a record of it would have
    partition  whose model is to score it; None: the key's partition
    fault      the reason if it can't be an instance, and that was seen before its record is decoded
    """

    value: bytes
    key: bytes | None = None
    partition: int | None = None
    fault: InstanceFault | None = None


class _Body(msgspec.Struct):
    instances: list[msgspec.Raw]


class _Envelope(msgspec.Struct):
    key: Any = None
    partition: int | None = None
    record: msgspec.Raw = msgspec.Raw()


class _TwiceError(ValueError):
    """A map has a name twice, of which a decoder would take the last value in silence."""


_Read = TypeVar("_Read")


def _by_form(kind: type[_Read]) -> tuple[Callable[[bytes], _Read], Callable[[bytes], _Read]]:
    """Return what reads such a thing from JSON, and from msgpack."""
    return msgspec.json.Decoder(kind).decode, msgspec.msgpack.Decoder(kind).decode


class Questions:
    """Reads bodies of requests.

    mapped  whether records have another shape than the product's own messages: then an instance has one as `record`
    most    instances of a request
    """

    def __init__(self, most: int, *, mapped: bool) -> None:
        self.most = most
        self._mapped = mapped
        self._bodies = _by_form(_Body)
        self._envelopes = _by_form(_Envelope)

    def read(self, body: bytes, *, packed: bool) -> list[Instance]:
        """Return the instances of a body; `packed` says that it is msgpack.

        BadRequestError if it is none; an instance that is not what one can be has a fault.
        """
        try:
            found = self._bodies[packed](body).instances
            _refuse_twice(_Body, body, packed=packed)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, _TwiceError) as error:
            form, wrong = "msgpack" if packed else "JSON", f"another: {error}" if body else "none"
            raise BadRequestError(400, f'expected a body of {form}, {{"instances": [...]}}, found {wrong}') from None
        if len(found) > self.most:
            raise BadRequestError(413, f"expected at most {self.most} instances, found {len(found)}")
        return self.instances(list(map(bytes, found)), packed=packed)

    def instances(self, found: Sequence[bytes], *, packed: bool = False) -> list[Instance]:
        """Return instances that came one by one, as `read` does."""
        open_up = self._envelopes[packed]
        instances = []
        for index, raw in enumerate(found):
            try:
                told = open_up(raw)
                _refuse_twice(_Envelope, raw, packed=packed)
                instances.append(self._instance(raw, told, packed=packed))
            except _TwiceError as error:
                instances.append(Instance(raw, fault=InstanceFault(index, Reason.DUPLICATE_KEY.code, str(error))))
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
                instances.append(Instance(raw, fault=InstanceFault(index, "wrong_type", str(error))))
        return instances

    def _instance(self, raw: bytes, told: _Envelope, *, packed: bool) -> Instance:
        if self._mapped and not told.record:
            raise ValueError('expected {"record": ...}, the record as it would be in the topic, found no record')
        value = _record_of(bytes(told.record), packed=packed) if self._mapped else raw
        return Instance(value, _key_of(told.key), told.partition)


def _refuse_twice(kind: type[msgspec.Struct], raw: bytes, *, packed: bool) -> None:
    """Raise _TwiceError if the outer map of `raw`, which was decoded as `kind`, has one of its fields twice.

    The map is read again, slowly, only if its bytes hold such a name twice, or letters that are written as escapes.
    """
    fields = kind.__struct_fields__
    if all(raw.count(name.encode()) < 2 for name in fields) and (packed or not _LETTER_ESCAPED.search(raw)):
        return
    names: list[object] = []

    def note(pairs: Iterable[tuple[object, object]]) -> None:
        names[:] = [name for name, _ in pairs]  # maps come from the innermost on, so that the last one is the outer

    # What only the second decoder can't read is left to the codec, which reads all of it.
    with suppress(ValueError, RecursionError, msgpack.UnpackException):
        if packed:
            msgpack.unpackb(raw, object_pairs_hook=note, strict_map_key=False, unicode_errors="replace")
        else:
            json.loads(raw.decode(errors="replace"), object_pairs_hook=note, parse_int=str, parse_float=str)
    for name in fields:
        if names.count(name) > 1:
            raise _TwiceError(f'expected "{name}" once, found it {names.count(name)} times')


def _key_of(key: object) -> bytes | None:
    """Return the key as `produce` would send it: bytes as they are, text in UTF-8, a number as decimal text."""
    match key:
        case None | bytes():
            return key
        case bool():
            pass
        case str() | int():
            return str(key).encode()
    found = _shortened(repr(key))
    raise ValueError(f"expected a key that is a text or a whole number, or bytes in msgpack, found {found}")


def _record_of(raw: bytes, *, packed: bool) -> bytes:
    """Return a record's bytes: what is framed, as Avro is, comes as bytes, in JSON as base64."""
    if packed and raw[0] in {0xC4, 0xC5, 0xC6}:
        return msgspec.msgpack.decode(raw, type=bytes)
    if not packed and raw.startswith(b'"'):
        text = msgspec.json.decode(raw, type=str)
        try:
            return b64decode(text, validate=True)
        except ValueError:
            found = _shortened(text)
            raise ValueError(f"expected a map as record, or a framed one in base64, found {found!r}") from None
    return raw


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
