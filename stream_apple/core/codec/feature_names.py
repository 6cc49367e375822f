"""What base features are called: names learned from examples, by key, in bounded memory.

A key is a hash and can't be undone; whoever sees an example before it is hashed can note what gave which key.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgpack
import numpy as np

from stream_apple.core.codec.feature_hashing import feature_key, index_key, user_key
from stream_apple.core.codec.json_faults import is_json
from stream_apple.core.codec.json_transcoding import as_msgpack

MOST_NAMES = 65_536
LONGEST_NAME = 100
"""Characters that are kept of a name."""
_MOST_OF_A_RECORD = 4_096
_CUT = "..."
_EQUALS = b"="
_JOIN = "^"  # of namespace and name, as in Vowpal Wabbit


def names_in(value: bytes | None) -> Iterator[tuple[int, str]]:
    """Key and name of the base features of an example; nothing of a record that is none.

    `name`, `namespace^name`, `name=category`, or `#index` of the packed form.
    """
    try:
        packed = as_msgpack(value) if value and is_json(value) else value
        example = msgpack.unpackb(packed or b"", raw=True, strict_map_key=False)
        features = example[b"features"]
        found = list(islice(_names(features), _MOST_OF_A_RECORD))
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException):
        return
    yield from found


def name_of_user(key: bytes | None) -> Iterator[tuple[int, str]]:
    """Key and name of the user whose records have this key: `key=...`; nothing of a record without."""
    if key is not None:
        yield user_key(key), "key=" + key.decode(errors="replace")


def _names(features: Mapping[bytes, object]) -> Iterator[tuple[int, str]]:
    if isinstance(features.get(b"indices"), bytes):
        yield from _indices(features)
        return
    for name, value in features.items():
        if isinstance(value, Mapping):
            space = name.decode()
            prefix = space + _JOIN if space else ""
            inners = (_full(inner, category) for inner, category in value.items())
            yield from ((feature_key(inner, space), prefix + inner.decode(errors="replace")) for inner in inners)
        else:
            full = _full(name, value)
            yield feature_key(full), full.decode(errors="replace")


def _full(name: bytes, value: object) -> bytes:
    return name + _EQUALS + value if isinstance(value, bytes) else name


def _indices(features: Mapping[bytes, object]) -> Iterator[tuple[int, str]]:
    packed, values = features[b"indices"], features.get(b"values")
    assert isinstance(packed, bytes)
    narrow = isinstance(values, bytes) and len(values) == len(packed)
    for index in np.frombuffer(packed, "<u4" if narrow else "<u8").tolist():
        yield index_key(index), f"#{index}"


class Names:
    """At most `most` names; those that were not seen for longest go, unless they are kept.

    May be used by several threads.
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._names: dict[int, str] = {}  # in the order in which they were last seen
        self._kept: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def add(self, found: Iterable[tuple[int, str]]) -> None:
        """These names have been seen now."""
        with self._lock:
            for key, name in found:
                self._names.pop(key, None)
                self._names[key] = _presentable(name)
                if len(self._names) > self._most:
                    self._forget_one()

    def keep(self, keys: Collection[int]) -> None:
        """Until the next call, the names of these keys stay, half of the room at most."""
        with self._lock:
            self._kept = frozenset(islice(keys, self._most // 2))

    @property
    def missing(self) -> frozenset[int]:
        """The keys to keep whose names are not known yet."""
        return frozenset(key for key in self._kept if key not in self._names)

    def get(self, key: int) -> str | None:
        """The name, if it is known."""
        return self._names.get(key)

    def known(self) -> dict[int, str]:
        """All names, by key."""
        with self._lock:
            return dict(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _forget_one(self) -> None:
        for key in list(islice(self._names, len(self._kept) + 1)):
            name = self._names.pop(key)
            if key not in self._kept:
                return
            self._names[key] = name


def _presentable(name: str) -> str:
    """The name as it may be shown: not too long, and without what would steer a terminal or turn the text around."""
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - len(_CUT)] + _CUT
    if name.isprintable():
        return name
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in name)
