"""A table that stays compressed is merged as the table itself is, to the bit."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from learners.apple.merging.streams import kinds, learned
from support.bare_options import bare
from support.records import SETTINGS
from support.snapshots import empty, pointer

from stream_apple.errors import SnapshotError
from stream_apple.learners.apple.learner import Learner, as_apple
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import Mergeable, ReadableModel, mergeable_of
from stream_apple.learners.apple.state.table import SIDES
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot
from stream_apple.stream.snapshots.compressed_table import CompressedTable


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has sixteen."""
    monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 4_000)  # 8 buckets


def contributed(learner: Learner) -> ReadableModel:
    """The learner's state out of a snapshot, whose blocks stay compressed."""
    settings = SETTINGS._replace(options=learner.options)
    model = empty(settings=settings)
    model.learner = learner
    snapshot = encode_snapshot(model)
    read, table = empty(settings=settings), CompressedTable(learner.options)
    decoder = SnapshotDecoder(read, pointer(snapshot), table)
    for message in snapshot.messages:
        decoder.add(message)
    assert decoder.left == 0
    assert not as_apple(read.learner).table.slots["key"].any()
    return ReadableModel(learner.options, table, mergeable_of(read.learner).sums)


@kinds
@pytest.mark.parametrize("parents", ["votes", "union"])
def test_it_is_merged_as_the_table_is(kind: dict[str, Any], parents: Any) -> None:
    """Beside one that is in memory, by several threads; memory that was decoded to is written over by the next."""
    learners = [learned(bare(bits=10, **kind), seed) for seed in range(3)]
    expected = merge(learners, parents=parents)
    given: list[Learner | Mergeable | ReadableModel] = [
        contributed(learners[0]),
        learners[1],
        contributed(learners[2]),
    ]
    with ThreadPoolExecutor(3) as pool:
        for parts in (1, 3):
            found = merge(given, parents=parents, run=pool.map, parts=parts)
            assert found.counts == expected.counts
            assert found.model.digest() == expected.model.digest()


@kinds
def test_one_alone_is_decoded_as_a_whole(kind: dict[str, Any]) -> None:
    """With its admission filter, its constant and all that stands beside slots."""
    learner = learned(bare(bits=10, **kind), 1)
    given, expected = contributed(learner), learner.table
    assert given.table.nominees().tolist() == np.flatnonzero(expected.slots["parent"] & 64).tolist()
    found = given.table.copy()
    for name in ("slots", "tags", "admission_filter", *SIDES):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    used = expected.slots["degree"] <= 1
    if len(expected.companions):
        assert found.companions[used].tobytes() == expected.companions[used].tobytes()
    assert merge([given]).model.digest() == merge([learner]).model.digest()


@pytest.mark.parametrize("damage", ["digest", "block"])
def test_the_digest_is_of_all_that_was_read(damage: str) -> None:
    """A table that is another than the committed offset says is not merged."""
    options = bare(bits=10)
    settings = SETTINGS._replace(options=options)
    taken = []
    for seed in range(2):
        model = empty(settings=settings)
        model.learner = learned(options, seed)
        taken.append(encode_snapshot(model))
    where = pointer(taken[0])
    messages = list(taken[0].messages)
    if damage == "digest":
        where = where._replace(digest="0" * 32)
    else:
        messages[3] = taken[1].messages[3]
    decoder = SnapshotDecoder(empty(settings=settings), where, CompressedTable(options))
    for message in messages[:-1]:
        decoder.add(message)
    with pytest.raises(SnapshotError, match="digest"):
        decoder.add(messages[-1])
