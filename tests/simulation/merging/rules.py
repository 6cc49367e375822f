"""What must hold of all that stands in the merges topic."""

from collections.abc import Mapping
from typing import NamedTuple

import msgpack
from simulation.cluster import MemoryCluster
from simulation.merging.notes import note_of
from simulation.process import GROUP, MERGES, TOPICS, Setup
from support.records import TOPIC

from stream_apple.stream.merging.adoptions import AdoptionRecord, decode_adoption
from stream_apple.stream.positions.merge_note import BoundaryState
from stream_apple.stream.snapshots.merge_messages import MergeManifest, read_manifest


class Merges(NamedTuple):
    """All that readers see in the merges topic: round -> what is recorded of its merge, and all adoption records."""

    manifests: Mapping[int, MergeManifest]
    adoptions: list[AdoptionRecord]


def check_merges(cluster: MemoryCluster, setup: Setup) -> Merges:
    """What is in the merges topic; AssertionError unless each round was merged once, and each boundary passed once."""
    cluster.transactions.settle()
    log = cluster.log(MERGES, 0)
    manifests: dict[int, MergeManifest] = {}
    adoptions: list[AdoptionRecord] = []
    keys = set()
    order = []
    for record in log.committed():
        group, kind, rest = (record.named or b"").split(b"/")
        assert group == GROUP.encode()
        if kind == b"adopted":
            adoptions.append(decode_adoption(GROUP, record.payload))
            assert adoptions[-1].partition == int(rest)
            continue
        assert record.named not in keys, f"round {kind!r} was merged twice: {record.named!r}"
        keys.add(record.named)
        envelope = msgpack.unpackb(record.payload or b"")
        if envelope["index"] == envelope["of"] - 1:
            number = int(kind)
            manifests[number] = read_manifest(GROUP, number, record.payload)
            order.append(number)
            assert {f"{GROUP}/{number}/{index}".encode() for index in range(envelope["of"])} <= keys
    _check_histories(manifests, order)
    places = [(each.partition, each.round, each.at) for each in adoptions]
    assert len(set(places)) == len(places), f"a boundary was passed twice: {sorted(places)}"
    newest = cluster.group(GROUP, TOPIC).offsets.get(0)
    noted = None if newest is None else note_of(newest.metadata).get("merged")
    assert (noted[0] if noted else None) == (order[-1] if order else None)
    _check_transactions(cluster, adoptions)
    assert setup.merging is not None
    return Merges(manifests, adoptions)


def _check_histories(manifests: Mapping[int, MergeManifest], order: list[int]) -> None:
    """Each merge names all before it, and who is in it and who is not are all partitions."""
    for place, number in enumerate(order):
        manifest = manifests[number]
        assert [each.round for each in manifest.history.merges] == order[:place]
        roster, excluded = ([each.partition for each in part] for part in (manifest.roster, manifest.excluded))
        assert sorted(roster + excluded) == list(range(manifest.partitions))
        assert roster == sorted(roster)


def _check_transactions(cluster: MemoryCluster, adoptions: list[AdoptionRecord]) -> None:
    """Whoever goes on with a merged model has saved its own in the same transaction."""
    entries = cluster.log(MERGES, 0).entries()
    of = {entry.record.at: entry.transaction for entry in entries if entry.record is not None}
    adopting = {(each.partition, each.at): each for each in adoptions if each.state is BoundaryState.ADOPTED}
    for record in cluster.log(MERGES, 0).committed():
        if b"/adopted/" not in (record.named or b""):
            continue
        adoption = decode_adoption(GROUP, record.payload)
        if (adoption.partition, adoption.at) in adopting:
            models = {entry.transaction for entry in cluster.log(TOPICS.models, adoption.partition).entries()}
            assert of[record.at] in models, f"no snapshot beside {adoption}"
