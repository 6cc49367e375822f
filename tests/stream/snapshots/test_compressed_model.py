"""A model that stays compressed is merged as the model itself is, to the bit."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from learners.apple.merging.streams import kinds, learned
from support.bare_options import bare
from support.records import SETTINGS
from support.snapshots import empty, pointer

from stream_apple.errors import SnapshotError
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot
from stream_apple.stream.snapshots.compressed_model import CompressedModel


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has sixteen."""
    monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 4_000)  # 8 buckets


def contributed(learner: Learner) -> CompressedModel:
    """The learner's state out of a snapshot, whose blocks stay compressed."""
    settings = SETTINGS._replace(options=learner.options)
    model = empty(settings=settings)
    model.learner = learner
    snapshot = encode_snapshot(model)
    read = empty(settings=settings)
    kept = CompressedModel(learner.options, read.learner.state.rows)
    decoder = SnapshotDecoder(read, pointer(snapshot), kept)
    for message in snapshot.messages:
        decoder.add(message)
    assert decoder.left == 0
    assert not any(array.view(np.uint8).any() for array in read.learner.state.rows.values())
    kept.finish(mergeable_of(read.learner).sums)
    return kept


@kinds
@pytest.mark.parametrize("parents", ["votes", "union"])
def test_it_is_merged_as_the_model_is(kind: dict[str, Any], parents: Any) -> None:
    """Beside one that is in memory, by several threads; memory that was decoded to is written over by the next."""
    learners = [learned(bare(bits=10, **kind), seed) for seed in range(3)]
    expected = merge(learners, parents=parents)
    given: list[Learner | CompressedModel] = [
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
    given = contributed(learner)
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
    read = empty(settings=settings)
    decoder = SnapshotDecoder(read, where, CompressedModel(options, read.learner.state.rows))
    for message in messages[:-1]:
        decoder.add(message)
    with pytest.raises(SnapshotError, match="digest"):
        decoder.add(messages[-1])
