"""The names of base features, learned from examples, by key, in bounded memory.

A key is a hash and can't be inverted; but the names in an example can be hashed again, and kept by their keys.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgpack
import numpy as np

from stream_apple.core.ngrams import NO_NGRAMS, NgramSizes, ngram_key, size_of
from stream_apple.records.message.feature_hashing import feature_key, index_key

MOST_NAMES = 65_536
LONGEST_NAME = 100
"""Characters that are kept of a name."""
_MOST_OF_A_RECORD = 4_096  # names; n-grams as many times more as the longest one has features
_MOST_FEATURES = 65_536  # that an example may have, whatever the limits are set to
_CUT = "..."
_EQUALS = b"="
_JOIN = "^"  # of namespace and name, as in Vowpal Wabbit


class _Map(tuple[tuple[bytes, object], ...]):
    """A map of msgpack as a list of pairs: a name may occur twice."""

    __slots__ = ()


def names_in(value: bytes | None, ngrams: NgramSizes = NO_NGRAMS) -> Iterator[tuple[int, str]]:
    """Yield key and name of each base feature of an example in msgpack; nothing if the message is not an example.

    `name`, `namespace^name`, `name=category`, or `#index` of the packed form; and `namespace^name^next` of an n-gram.
    """
    most = _MOST_OF_A_RECORD * ngrams.largest
    try:
        found = list(islice(_names(_features_of(value or b""), ngrams), most))
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException):
        return
    yield from found


def _features_of(example: bytes) -> object:
    """Return the value of the key `features`; None if there is none.

    All else is skipped. ValueError for more features than any example may have, or for bytes after the example.
    """
    made = 0

    def pairs(items: list[tuple[bytes, object]]) -> _Map:
        nonlocal made
        made += len(items)
        if made > _MOST_FEATURES:
            raise ValueError("more features than any example has")
        return _Map(items)

    unpacker = msgpack.Unpacker(
        raw=True, strict_map_key=False, object_pairs_hook=pairs, max_map_len=_MOST_FEATURES, max_array_len=0
    )
    unpacker.feed(example)
    features = None
    for _ in range(unpacker.read_map_header()):
        if unpacker.unpack() == b"features":
            features = unpacker.unpack()
        else:
            unpacker.skip()
    if unpacker.tell() != len(example):
        raise ValueError("more than an example")
    return features


class _Named(NamedTuple):
    """A base feature with its name; `zero` says that its value is 0, so that the example does not have it."""

    key: int
    name: str
    zero: bool


def _names(features: object, ngrams: NgramSizes) -> Iterator[tuple[int, str]]:
    if not isinstance(features, _Map):
        raise TypeError(f"expected a map, found {type(features)}")
    run, of = list[tuple[int, str]](), ""
    for space, named in _spaced(features):
        yield named.key, named.name
        if named.zero:
            continue
        if space != of:
            yield from names_of_ngrams(run, of, ngrams)
            run, of = [], space
        run.append((named.key, named.name))
    yield from names_of_ngrams(run, of, ngrams)


def _spaced(features: _Map) -> Iterator[tuple[str, _Named]]:
    """Yield each feature with its namespace, in order."""
    packed = dict(features)
    if isinstance(packed.get(b"indices"), bytes):
        yield from (("", named) for named in _indices(packed))
        return
    for name, value in features:
        if isinstance(value, _Map):
            space = name.decode()
            prefix = space + _JOIN if space else ""
            for inner, number in value:
                full = _full(inner, number)
                key, shown = feature_key(full, space), prefix + full.decode(errors="replace")
                yield space, _Named(key, shown, _is_zero(number))
        else:
            full = _full(name, value)
            yield "", _Named(feature_key(full), full.decode(errors="replace"), _is_zero(value))


def _full(name: bytes, value: object) -> bytes:
    return name + _EQUALS + value if isinstance(value, bytes) else name


def _is_zero(value: object) -> bool:
    """Return whether a feature's value is 0 as a 32-bit float."""
    return isinstance(value, int | float) and np.float32(value) == 0


def _indices(features: dict[bytes, object]) -> Iterator[_Named]:
    packed, values = features[b"indices"], features.get(b"values")
    assert isinstance(packed, bytes)
    if len(packed) > 8 * _MOST_FEATURES:
        raise ValueError("more features than any example has")
    narrow = isinstance(values, bytes) and len(values) == len(packed)
    indices = np.frombuffer(packed, "<u4" if narrow else "<u8").tolist()
    numbers = np.frombuffer(values, "<f4").tolist() if isinstance(values, bytes) else [1.0] * len(indices)
    for index, number in zip(indices, numbers, strict=True):
        yield _Named(index_key(index), f"#{index}", number == 0)


def names_of_ngrams(run: Sequence[tuple[int, str]], space: str, sizes: NgramSizes) -> Iterator[tuple[int, str]]:
    """Yield key and name of the n-grams of neighbouring features in a namespace, of which `run` has key and name."""
    prefix = len(space + _JOIN) if space else 0
    for size in range(2, size_of(sizes, space) + 1):
        for first in range(len(run) - size + 1):
            key, name = run[first]
            for following, its_name in run[first + 1 : first + size]:
                key = int(ngram_key(np.uint64(key), np.uint64(following)))
                name += _JOIN + its_name[prefix:]
            yield key, name


class Names:
    """A cache of at most `most` names; those seen longest ago are dropped, unless they are kept.

    Several threads may use it.

    ngrams  the n-grams of the model whose features have these names
    """

    def __init__(self, most: int = MOST_NAMES, ngrams: NgramSizes = NO_NGRAMS) -> None:
        self.ngrams = ngrams
        self._most = most
        self._names: dict[int, str] = {}  # in the order in which they were last seen
        self._kept: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    def add(self, found: Iterable[tuple[int, str]]) -> None:
        """Add these names, by key, as those seen last."""
        with self._lock:
            for key, name in found:
                self._names.pop(key, None)
                self._names[key] = _presentable(name)
                if len(self._names) > self._most:
                    self._forget_one()

    def keep(self, keys: Collection[int]) -> None:
        """Keep the names of these keys until the next call; of more than `most` / 2 keys only the first."""
        with self._lock:
            self._kept = frozenset(islice(keys, self._most // 2))

    @property
    def missing(self) -> frozenset[int]:
        """The keys given to `keep` whose names are not known yet."""
        return frozenset(key for key in self._kept if key not in self._names)

    def get(self, key: int) -> str | None:
        """Return the name of the feature with this key, or None if it is not known."""
        return self._names.get(key)

    def known(self) -> dict[int, str]:
        """Return a copy of all names, by key."""
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
    """Return the name as it may be shown: cut if long, and without terminal controls or changes of text direction."""
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - len(_CUT)] + _CUT
    if name.isprintable():
        return name
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in name)
