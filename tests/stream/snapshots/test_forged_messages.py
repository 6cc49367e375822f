"""Messages of topics that somebody else has written: each is what it has to be, or is refused with the reason."""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgpack
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.merging.merged_models import GROUP, OPTIONS, manifest, merged
from stream.snapshots.forgery import (
    amplified,
    bomb,
    distorted,
    flipped,
    forged_message,
    nested,
    packed_anyway,
    resealed,
)
from stream.snapshots.test_merge_messages import ADOPTED
from support.records import FakeRecord
from support.snapshots import PROVENANCE, empty, grown, pointer

from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.adoptions import decode_adoption, encode_adoption
from stream_apple.stream.positions.lineage import OffsetMetadata, SnapshotPointer
from stream_apple.stream.snapshots.codec import encode_snapshot, read_stored_manifest
from stream_apple.stream.snapshots.merge_messages import MergeDecoder, encode_merge, read_manifest
from stream_apple.stream.snapshots.stored_messages import snapshot_messages

TAKEN = encode_snapshot(grown())
PLACE = rf"the snapshot of examples-0 at offset {TAKEN.at} \(models-0, messages 0 to {len(TAKEN.messages) - 1}\): "
MERGED = encode_merge(GROUP, manifest(), merged().model)
RANDOMS = st.randoms(use_true_random=False)


def read_snapshot(messages: list[bytes | None]) -> bool:
    """As a worker reads it; SnapshotError."""
    stored = snapshot_messages(PROVENANCE, empty(), pointer(TAKEN))
    for at, value in enumerate(messages):
        stored.take(FakeRecord(0, at, value, 1, PROVENANCE.snapshot_key(0, at)))
    return not stored.left


def read_merge(messages: list[bytes | None]) -> bool:
    """As a worker reads a merged model; SnapshotError."""
    decoder = MergeDecoder(GROUP, 3, OPTIONS)
    for value in messages:
        decoder.add(value)
    return not decoder.left


READERS: list[tuple[Callable[[list[bytes | None]], bool], list[bytes]]] = [
    (read_snapshot, TAKEN.messages),
    (read_merge, MERGED),
]


@settings(max_examples=200)
@given(RANDOMS, st.sampled_from(range(len(READERS))))
def test_models_of_topics(random: Random, which: int) -> None:
    """A message in one of which something is forged; whoever reads the manifest alone refuses it, too."""
    read, messages = READERS[which]
    at = random.choice([0, -1, -1])
    forged = forged_message(random, messages[at])
    values: list[bytes | None] = [*messages]
    values[at] = forged
    with suppress(SnapshotError):
        read(values)
    for other in (read_stored_manifest, lambda value: read_manifest(GROUP, 3, value)):
        with suppress(SnapshotError):
            other(forged)


@settings(max_examples=200)
@given(RANDOMS)
def test_records_and_notes(random: Random) -> None:
    """Adoption records, and what stands beside offsets."""
    record = msgpack.unpackb(encode_adoption(GROUP, ADOPTED))
    with suppress(SnapshotError):
        decode_adoption(GROUP, packed_anyway(distorted(random, record)))
    with suppress(SnapshotError):
        decode_adoption(GROUP, flipped(random, packed_anyway(record)))
    noted = OffsetMetadata(PROVENANCE.lineage(0, 3), SnapshotPointer(9, 3, 4, "0" * 32))
    text = json.dumps(distorted(random, json.loads(noted.to_text())), default=str)
    with suppress(ConfigurationError):
        PROVENANCE.read_metadata(0, Committed(9, text))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4000,
        '{"v":' * 900,
        f'{{"v":1,"start":{"9" * 4000},"model":"x"}}',
        '{"v":1,"start":1e999,"model":"x"}',
        '{"v":1,"start":NaN,"model":"x"}',
        '{"v":1,"start":0,"model":"x","merge":{"settings":[1,"votes"],"boundary":[1e999,0,"skipped"]}}',
    ],
    ids=lambda text: text[:20],
)
def test_notes_of_strangers(text: str) -> None:
    """However deep they are nested, and however large their numbers, they are somebody else's."""
    with pytest.raises(ConfigurationError, match="something else commits in this group"):
        PROVENANCE.read_metadata(0, Committed(9, text))


def test_a_note_that_is_no_json() -> None:
    """Such as the empty one of an offset that was reset by hand."""
    for text, found in (("", "nothing"), ("by hand", "by hand")):
        with pytest.raises(ConfigurationError, match=rf"found '{text}' \(expected JSON, found {found}\)"):
            PROVENANCE.read_metadata(0, Committed(9, text))


BLOCK = len(zstandard.decompress(msgpack.unpackb(TAKEN.messages[0])["data"]))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bomb(1 << 30), r"expected a frame of at most [0-9,]{4,10} bytes, found 1,073,741,824"),
        (bomb(1 << 62), r"expected a frame of at most [0-9,]{4,10} bytes, found 4,611,686,018,427,387,904"),
        (bomb(BLOCK, BLOCK) + bomb(BLOCK, BLOCK), "unused data"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(bytes(BLOCK)), "found none that says so"),
        (b"", "not enough data"),
    ],
)
@pytest.mark.parametrize("at", [0, -1], ids=["block", "manifest"])
@pytest.mark.parametrize("which", [0, 1], ids=["models", "merges"])
def test_frames_that_say_too_much(which: int, at: int, data: bytes, complaint: str) -> None:
    """Before memory is taken for what they say. A snapshot's place is named; of merges, by who reads the topic."""
    read, messages = READERS[which]
    values: list[bytes | None] = [*messages]
    values[at] = resealed(messages[at], data=data)
    with pytest.raises(SnapshotError, match=(PLACE if which == 0 else "") + f".*{complaint}"):
        read(values)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (amplified(1 << 20), "more than 524,288 values"),
        (packed_anyway(nested(500)), "deeper than 8"),
        (packed_anyway({"arrays": nested(9)}), "deeper than 8"),
        (b"\xdd\xff\xff\xff\xff", "expected msgpack"),
        (msgpack.packb(7), "expected the whole to be a map"),
    ],
)
@pytest.mark.parametrize("which", [0, 1], ids=["models", "merges"])
def test_manifests_that_become_too_much(which: int, content: bytes, complaint: str) -> None:
    """A byte of msgpack may be a hundred of objects; and lists within lists have no end."""
    read, messages = READERS[which]
    with pytest.raises(SnapshotError, match=complaint):
        read([*messages[:-1], resealed(messages[-1], data=zstandard.compress(content))])


def test_what_was_not_touched_is_read() -> None:
    """Both ways."""
    assert read_snapshot([*TAKEN.messages])
    assert read_merge([*MERGED])
