"""A merged model comes back to the bit, or is refused with the reason; so does an adoption record."""

import hashlib
from contextlib import suppress
from typing import Any

import msgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from stream.merging.merged_models import EXCLUDED, GROUP, HISTORY, OPTIONS, ROSTER, learned, manifest, merged
from stream.snapshots.forgery import resealed

from stream_apple.adapters.kafka.client_properties import SNAPSHOT_MESSAGE_BYTES
from stream_apple.errors import SnapshotError
from stream_apple.learners.apple.merging.merge import adopt
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.stream.merging.adoptions import AdoptionRecord, adoption_key, decode_adoption, encode_adoption
from stream_apple.stream.positions.merge_note import BoundaryState, MergedPointer
from stream_apple.stream.snapshots.blocks import FORMAT
from stream_apple.stream.snapshots.merge_messages import (
    Exclusion,
    MergeDecoder,
    RosterEntry,
    encode_merge,
    merge_key,
    read_manifest,
)

ADOPTED = AdoptionRecord(2, 117, 3, BoundaryState.ADOPTED, True, MergedPointer(3, 4, 9), "a" * 32, "b" * 32)  # noqa: FBT003
SKIPPED = AdoptionRecord(1, 90, 3, BoundaryState.SKIPPED, False, None, None, "c" * 32)  # noqa: FBT003


@pytest.fixture(autouse=True)
def _many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 16_000)


def messages() -> list[bytes]:
    """Those of the merged model."""
    return encode_merge(GROUP, manifest(), merged().model)


def decoded(values: list[bytes]) -> MergeDecoder:
    """All of them taken in."""
    decoder = MergeDecoder(GROUP, 3, OPTIONS)
    for value in values:
        decoder.add(value)
    assert decoder.left == 0
    return decoder


def rewritten(message: bytes, **changes: Any) -> bytes:
    """A manifest with some entries changed, in a sound envelope."""
    content = {**msgpack.unpackb(zstandard.decompress(msgpack.unpackb(message)["data"])), **changes}
    return resealed(message, data=zstandard.compress(msgpack.packb(content)))


class TestMergedModels:
    """Messages of a merged model."""

    def test_it_comes_back(self) -> None:
        """The model to the bit, and all that is recorded of it; whoever adopts it has it."""
        values = messages()
        assert len(values) == 5
        decoder = decoded(values)
        assert decoder.model.digest() == merged().model.digest()
        assert decoder.manifest == manifest() == read_manifest(GROUP, 3, values[-1])
        assert (manifest().roster, manifest().excluded, manifest().history) == (ROSTER, EXCLUDED, HISTORY)
        own = learned(2).learner
        adopt(own, decoder.model)
        assert mergeable_of(own).digest() == manifest().digest

    def test_thousands_of_partitions_fit_into_a_message(self) -> None:
        """Who is in a merge, and who is not, is said in one message, which no broker may find too large."""
        digests = [hashlib.sha256(b"%d" % number).hexdigest()[:32] for number in range(4_000)]
        many = manifest()._replace(
            partitions=8_000,
            roster=tuple(RosterEntry(number, 10**12, 10**9, 10**9 + 9, digests[number]) for number in range(4_000)),
            excluded=tuple(Exclusion(number, "late") for number in range(4_000, 8_000)),
        )
        last = encode_merge(GROUP, many, merged().model)[-1]
        assert len(last) < SNAPSHOT_MESSAGE_BYTES
        assert read_manifest(GROUP, 3, last) == many

    def test_keys(self) -> None:
        """Those of the messages in their order, and those of records."""
        for index in range(len(messages())):
            assert merge_key(GROUP, 3, index) == merge_key(GROUP, 3) + b"%d" % index == b"group/3/%d" % index
        assert adoption_key(GROUP, 7) == b"group/adopted/7"

    def test_who_is_in_it(self) -> None:
        """A partition is, with what it had become at one offset."""
        assert manifest().includes(2, 117)
        assert not manifest().includes(2, 118)
        assert not manifest().includes(1, 117)

    @given(st.data())
    def test_damage(self, data: st.DataObject) -> None:
        """Wherever a bit flips or an end is missing, it is refused, as is a message out of its turn."""
        values = messages()
        which = data.draw(st.integers(0, len(values) - 1))
        value = bytearray(values[which])
        kind = data.draw(st.sampled_from(["flip", "cut", "swap"]))
        if kind == "flip":
            value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del value[data.draw(st.integers(0, len(value) - 1)) :]
        else:
            value = bytearray(values[which - 1])
        decoder = MergeDecoder(GROUP, 3, OPTIONS)
        for before in values[:which]:
            decoder.add(before)
        try:
            decoder.add(bytes(value))
        except SnapshotError:
            pass
        else:
            # The letter case of no letter, the name of no option: what is not looked at changes nothing.
            rest = [*values[:which], bytes(value), *values[which + 1 :]]
            assert decoded(rest).model.digest() == merged().model.digest()

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"v": FORMAT + 1}, f"format {FORMAT}, found {FORMAT + 1}; to start over, use a new worker.group"),
            ({"group": "others"}, "expected a message of round 3 of group group, found one of round 3 of group others"),
            ({"round": 4}, "found one of round 4"),
            ({"index": 1}, "expected message 0 of 5, found message 1 of 5"),
            ({"of": 6}, "expected message 0 of 5, found message 0 of 6"),
            ({"data": b"nonsense"}, "expected an undamaged message"),
            ({"data": zstandard.compress(b"short")}, "message 0: expected a merged model"),
        ],
    )
    def test_others(self, changes: dict[str, Any], complaint: str) -> None:
        """Other formats, groups, rounds, and places."""
        with pytest.raises(SnapshotError, match=complaint):
            MergeDecoder(GROUP, 3, OPTIONS).add(resealed(messages()[0], **changes))

    @pytest.mark.parametrize("value", [None, b"", b"\xc0", b"\x01", msgpack.packb({"v": 1}), msgpack.packb([1])])
    def test_no_messages(self, value: bytes | None) -> None:
        """What was never one."""
        with pytest.raises(SnapshotError, match="expected"):
            MergeDecoder(GROUP, 3, OPTIONS).add(value)
        with pytest.raises(SnapshotError, match="expected"):
            read_manifest(GROUP, 3, value)
        with pytest.raises(SnapshotError, match="expected an adoption record"):
            decode_adoption(GROUP, value)

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"digest": "0" * 32}, "expected a merged model with digest 000"),
            ({"options": {"bits": 3}}, "expected options .*, found {'bits': 3}: models of other settings"),
            ({"roster": [[0, 1]]}, "expected a manifest"),
            ({"roster": [[0, "x", 1, 2, "0"]]}, "expected a manifest"),
            ({"merges": [[1, 2]]}, "expected a manifest"),
            ({"arrays": {}}, "message 4: expected a merged model, found"),
            ({"arrays": 7}, "expected a manifest, found: expected arrays to be a map, found 7"),
        ],
    )
    def test_other_manifests(self, changes: dict[str, Any], complaint: str) -> None:
        """Sound messages that say something else."""
        values = messages()
        with pytest.raises(SnapshotError, match=complaint):
            decoded([*values[:-1], rewritten(values[-1], **changes)])

    def test_a_block_is_no_manifest(self) -> None:
        """The pointer to the newest merge names its last message."""
        with pytest.raises(SnapshotError, match="expected the last message of round 3, found message 0 of 5"):
            read_manifest(GROUP, 3, messages()[0])


class TestAdoptionRecords:
    """With what a partition goes on."""

    @pytest.mark.parametrize("record", [ADOPTED, SKIPPED, ADOPTED._replace(included=False)])
    def test_it_comes_back(self, record: AdoptionRecord) -> None:
        """All of it."""
        assert decode_adoption(GROUP, encode_adoption(GROUP, record)) == record

    @given(st.data())
    def test_damage(self, data: st.DataObject) -> None:
        """Whatever bit flips, there is a record of this group, or an error that says what was expected."""
        value = bytearray(encode_adoption(GROUP, ADOPTED))
        value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        with suppress(SnapshotError):
            record = decode_adoption(GROUP, bytes(value))
            assert isinstance(record.model, str)
            assert record.state is BoundaryState.ADOPTED

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"v": 2}, "of format 1, found 2; to start over, use a new worker.group"),
            ({"group": "others"}, "of group group, found one of others"),
            ({"state": "contributed"}, "expected state to be 'adopted' or 'skipped', found contributed"),
            ({"state": "skipped"}, "does not go together"),
            ({"merged": None}, "does not go together"),
            ({"digest": None}, "does not go together"),
            ({"included": 7}, "expected included to be a valid boolean, found 7"),
            ({"at": "x"}, "expected at to be a valid integer, found x"),
            ({"other": 1}, "expected nothing of the name other, found 1"),
        ],
    )
    def test_others(self, changes: dict[str, Any], complaint: str) -> None:
        """Records of other formats and groups, and contradictions."""
        with pytest.raises(SnapshotError, match=complaint):
            decode_adoption(GROUP, resealed(encode_adoption(GROUP, ADOPTED), **changes))
