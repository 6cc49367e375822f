"""A snapshot that has the table of a merged model comes back to the bit with that model, or is refused."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from stream.merging.merged_models import GROUP, OPTIONS, learned, manifest, merged
from support.records import DECODER, SETTINGS, TOPIC, stream

from stream_apple.errors import SnapshotError
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.merging_port import Mergeable
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.codec import (
    Snapshot,
    SnapshotDecoder,
    encode_snapshot,
    read_stored_manifest,
    refer,
)
from stream_apple.stream.snapshots.merge_messages import MergeDecoder, encode_merge

PLACE = MergedPointer(3, 4, 9)
NOTHING: Mapping[str, Any] = {}


class Saved(NamedTuple):
    """A model that has adopted the merged one, and the snapshot that refers to that."""

    model: PartitionModel
    snapshot: Snapshot


@cache
def saved() -> Saved:
    """Of partition 2, which is in the merge."""
    model = learned(2)
    model.adopt(merged().model, included=True, roster_size=2)
    return Saved(model, refer(model, model.digest()).to_snapshot(PLACE))


def new() -> PartitionModel:
    """A model that has learned nothing."""
    return PartitionModel(TOPIC, 2, learned(2).lineage, SETTINGS, DECODER)


def read(value: bytes, model: PartitionModel, digest: str = saved().snapshot.digest) -> SnapshotDecoder:
    """The message taken in."""
    decoder = SnapshotDecoder(model, SnapshotPointer(saved().snapshot.at, 7, 7, digest))
    decoder.add(value)
    assert decoder.left == 0
    return decoder


def stored() -> Mergeable:
    """The merged model as it comes out of its topic."""
    decoder = MergeDecoder(GROUP, 3, OPTIONS)
    for value in encode_merge(GROUP, manifest(), merged().model):
        decoder.add(value)
    return decoder.model


def changed(value: bytes, envelope: Mapping[str, Any] = NOTHING, manifest: Mapping[str, Any] = NOTHING) -> bytes:
    """The message with some entries of its envelope, or of its manifest, changed."""
    parts = msgpack.unpackb(value)
    content = {**msgpack.unpackb(zstandard.decompress(parts["data"])), **manifest}
    return bytes(msgpack.packb({**parts, "data": zstandard.compress(msgpack.packb(content)), **envelope}))


def test_it_comes_back() -> None:
    """With the merged model it is what it was, and goes on so; it is one small message."""
    (value,) = saved().snapshot.messages
    whole = encode_snapshot(saved().model)
    assert len(value) < len(whole.messages[-1]) + 100  # a table of any size is left out
    model = new()
    decoder = read(value, model)
    assert decoder.merged == PLACE
    decoder.complete(stored())
    assert model.digest() == saved().model.digest() == saved().snapshot.digest
    assert encode_snapshot(model) == whole
    going = stream(150, seed=7, partition=2)[model.next_offset :]
    before = learned(2)
    before.adopt(merged().model, included=True, roster_size=2)
    assert model.process(going).predictions == before.process(going).predictions


def test_where_it_is() -> None:
    """One message: so a pointer tells that it refers; whole ones have several, those of files are nowhere."""
    assert SnapshotPointer(5, 7, 7, "").refers
    assert not SnapshotPointer(5, 7, 8, "").refers
    assert not SnapshotPointer(0, -1, -1, "").refers


def test_its_manifest() -> None:
    """Whoever only looks finds it as that of any snapshot."""
    (value,) = saved().snapshot.messages
    found = read_stored_manifest(value)
    assert (found.digest, found.merged) == (saved().snapshot.digest, PLACE)
    assert read_stored_manifest(encode_snapshot(saved().model).messages[-1]).merged is None


def test_another_merged_model() -> None:
    """It is refused: the state would be another."""
    other = merge([learned(partition).learner for partition in (0, 1)]).model
    with pytest.raises(SnapshotError, match="expected a state with digest"):
        read(saved().snapshot.messages[0], new()).complete(other)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (
            changed(saved().snapshot.messages[0], manifest={"merged": None}),
            "expected it to name a merged model, found none",
        ),
        (changed(saved().snapshot.messages[0], manifest={"merged": [1, -2, 3]}), "expected merged.1 to be"),
        (changed(saved().snapshot.messages[0], {"of": 3}), "'of': 2}, found .*'of': 3}"),
        (changed(saved().snapshot.messages[0], {"at": 3}), "found .*'at': 3"),
        (changed(saved().snapshot.messages[0], {"v": 2}), "expected a message of format 1, found 2; to start over"),
        (encode_snapshot(saved().model).messages[-1], "'index': 0"),
    ],
)
def test_others(value: bytes, complaint: str) -> None:
    """What is no reference, or not whole, and other formats."""
    with pytest.raises(SnapshotError, match=complaint):
        read(value, new())


@pytest.mark.parametrize("name", ["topic", "partition", "start", "options", "digest"])
def test_another_models(name: str) -> None:
    """A reference of another model is refused by name."""
    with pytest.raises(SnapshotError, match=re.escape(f"the manifest: expected {name}")):
        read(changed(saved().snapshot.messages[0], manifest={name: "other"}), new()).complete(stored())


@given(st.data())
def test_damage(data: st.DataObject) -> None:
    """Wherever a bit flips or an end is missing, it is refused, or means the same."""
    value = bytearray(saved().snapshot.messages[0])
    at = data.draw(st.integers(0, len(value) - 1))
    if data.draw(st.booleans()):
        value[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del value[at:]
    model = new()
    try:
        read(bytes(value), model).complete(stored())
    except SnapshotError:
        return
    assert model.digest() == saved().snapshot.digest
