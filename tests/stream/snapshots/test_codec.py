"""A snapshot is the model, to the bit, or it is refused with the reason."""

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.snapshots.forgery import resealed
from support.records import DECODER, SETTINGS, TOPIC, good
from support.snapshots import LINEAGE, PAST, PROVENANCE, RECORDS, empty, grown, pointer

from stream_apple.core.batch import Batch
from stream_apple.errors import FormatError, ModelError, SnapshotError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.apple.options import MOST_FIRST_FEATURES, Options
from stream_apple.learners.apple.state.table import COMPANION, base_features
from stream_apple.learners.scores import Scores
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Gap, SnapshotPointer
from stream_apple.stream.snapshots.blocks import FORMAT
from stream_apple.stream.snapshots.codec import Snapshot, SnapshotDecoder, encode_snapshot, read_stored_manifest


def restore(model: PartitionModel, messages: list[bytes], where: SnapshotPointer) -> PartitionModel:
    """The snapshot's state in `model`."""
    decoder = SnapshotDecoder(model, where)
    for message in messages:
        decoder.add(message)
    assert decoder.left == 0
    return model


def rewritten(message: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A manifest that somebody has changed, in a sound envelope."""
    manifest = msgpack.unpackb(zstandard.decompress(msgpack.unpackb(message)["data"]))
    change(manifest)
    return resealed(message, data=zstandard.compress(msgpack.packb(manifest)))


@pytest.fixture(scope="module")
def taken() -> Snapshot:
    """A snapshot of the grown model."""
    return encode_snapshot(grown())


class TestRoundTrip:
    """What is restored goes on like what was saved."""

    def test_a_restored_model_is_the_same(self, taken: Snapshot) -> None:
        """Digest, position, outputs and the state after them are equal to the bit."""
        original, restored = grown(), restore(empty(), taken.messages, pointer(taken))
        assert restored.digest() == original.digest() == taken.digest
        assert (restored.next_offset, restored.ended.epoch) == (original.next_offset, original.ended.epoch)
        assert restored.ended.digest == original.ended.digest
        outcomes = [model.process(RECORDS[PAST:]) for model in (original, restored)]
        assert outcomes[0].predictions == outcomes[1].predictions
        assert outcomes[0].rejects == outcomes[1].rejects
        assert restored.digest() == original.digest()
        assert encode_snapshot(restored) == encode_snapshot(original)

    @settings(max_examples=40)
    @given(
        cut=st.integers(0, PAST),
        options=st.sampled_from(
            [
                Options(bits=8),
                Options(mixture=False, bits=8),
                Options(mixture=False, selection="ssm", bits=8),
                Options(method="linear", bits=8),
                Options(method="quadratic", bits=8),
            ]
        ),
    )
    def test_at_any_record(self, cut: int, options: Options) -> None:
        """Wherever the stream is interrupted, the result is that of no interruption."""
        settings = SETTINGS._replace(options=options)
        whole, first, second = (PartitionModel(TOPIC, 0, LINEAGE, settings, DECODER) for _ in range(3))
        whole.process(RECORDS)
        if cut:
            first.process(RECORDS[:cut])
        taken = encode_snapshot(first)
        restore(second, taken.messages, pointer(taken)).process(RECORDS[cut:])
        assert second.digest() == whole.digest()

    @pytest.mark.parametrize("cut", [4, 30, 160])
    def test_before_and_after_splines_are_fitted(self, cut: int) -> None:
        """First examples that are being collected, and splines, continue as if nothing had been."""
        settings = SETTINGS._replace(options=Options(bits=8))
        rng = np.random.default_rng(6)
        records = [
            good(at, hours=at / 90)._replace(
                payload=encode_example(
                    Example(float(rng.integers(0, 2)), 1.0, at, {"a": rng.normal(), "b": rng.normal()})
                )
            )
            for at in range(500)
        ]
        model = empty(settings=settings)
        model.process(records[:cut])
        fitted = bool(model.sums["prepared_fitted"][0])
        assert fitted == (cut > 40)
        assert bool(len(model.sums["prepared_first_keys"])) != fitted
        snapshot = encode_snapshot(model)
        restored = restore(empty(settings=settings), snapshot.messages, pointer(snapshot))
        assert restored.digest() == model.digest()
        for each in (model, restored):
            each.process(records[cut:])
        assert restored.digest() == model.digest()
        assert len(as_apple(restored.learner).preparation.splines.features)

    def test_a_manifest_with_as_many_first_examples_as_there_can_be(self) -> None:
        """Of what can't be compressed: below Kafka's default limit for a message."""
        model, rng = empty(settings=SETTINGS._replace(options=Options(bits=8))), np.random.default_rng(1)
        size, each = 32, MOST_FIRST_FEATURES // 32
        numbers = rng.integers(1, 1 << 64, size * each, np.uint64)
        batch = Batch(
            np.arange(size + 1) * each,
            numbers,
            rng.normal(size=size * each).astype(np.float32),
            rng.normal(size=size),
            np.ones(size),
        )
        model.learner.learn(batch, 0, size, Scores.empty(size))
        assert len(model.sums["prepared_first_keys"]) == MOST_FIRST_FEATURES
        assert max(map(len, encode_snapshot(model).messages)) < 1_000_000

    def test_blocks_of_a_large_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A table of several blocks is put together again."""
        monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 4_000)  # 8 buckets
        model = grown()
        taken = encode_snapshot(model)
        assert len(taken.messages) == 1024 // 64 + 1
        assert restore(empty(), taken.messages, pointer(taken)).digest() == model.digest()

    @pytest.mark.parametrize(
        "chosen",
        [{"loss": "logistic"}, {"mixture": False, "loss": "logistic", "selection": "ssm"}],
        ids=str,
    )
    def test_the_digest_is_not_that_of_blocks(self, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]) -> None:
        """A slot may have something beside it; verify and replicas hash whole tables, and snapshots their blocks."""
        monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 4_000)  # 8 buckets
        settings = SETTINGS._replace(options=Options(bits=10, **chosen))
        model, other = (PartitionModel(TOPIC, 0, LINEAGE, settings, settings.decoder()) for _ in range(2))
        model.process(RECORDS[:PAST])
        taken = encode_snapshot(model)
        assert taken.digest == model.digest()
        assert restore(other, taken.messages, pointer(taken)).digest() == model.digest()

    def test_taking_a_snapshot_changes_nothing(self) -> None:
        """The model that was saved goes on as if it had not been."""
        model, other = grown(), grown()
        encode_snapshot(model)
        assert model.process(RECORDS[PAST:]).predictions == other.process(RECORDS[PAST:]).predictions

    def test_the_digest_sees_every_part(self) -> None:
        """No part of the state can differ under the same digest."""
        digest = grown().digest()
        for name, array in grown().sums.items():
            model = grown()
            if name == "recent_rejects":
                model.rejects.recent = ~model.rejects.recent
            elif name == "reject_run":
                model.rejects.run += 1
            elif name.startswith("early_"):
                model.early.restore({**model.early.state, name: np.add(array, 1).astype(array.dtype)})
            else:
                model.sums[name][0] += 1
            assert model.digest() != digest, f"{name} {array.dtype}"
        for name in (
            "weight", "gradient", "scale", "average", "fast", "degree", "parent", "sights", "key"
        ):  # fmt: skip
            model = grown()
            as_apple(model.learner).table.slots[name][5] += 1
            assert model.digest() != digest, name
        base = base_features(as_apple(grown().learner).table.slots)
        for name in COMPANION.names or ():
            for place in (base[0], -1):
                model = grown()
                as_apple(model.learner).table.companions[name][place] += 1
                assert model.digest() != digest, name


class TestRefusals:
    """A snapshot that is not the model's is never used."""

    @given(data=st.data())
    def test_any_flipped_bit(self, data: st.DataObject) -> None:
        """Damage anywhere in any message is found."""
        taken = encode_snapshot(grown())
        number = data.draw(st.integers(0, len(taken.messages) - 1))
        message = bytearray(taken.messages[number])
        place = data.draw(st.integers(0, len(message) - 1))
        message[place] ^= 1 << data.draw(st.integers(0, 7))
        damaged = [*taken.messages[:number], bytes(message), *taken.messages[number + 1 :]]
        with pytest.raises(SnapshotError, match=r"expected .*found"):
            restore(empty(), damaged, pointer(taken))

    @pytest.mark.parametrize("value", [None, b"", b"\xc1", b"\x80", msgpack.packb([1]), msgpack.packb({"v": "1"})])
    def test_what_is_no_message(self, value: bytes | None, taken: Snapshot) -> None:
        """Tombstones and strangers' bytes are named as such."""
        with pytest.raises(SnapshotError, match="message 0: expected"):
            SnapshotDecoder(empty(), pointer(taken)).add(value)

    @pytest.mark.parametrize(
        "changes", [{"model": "0" * 16}, {"at": 1}, {"index": 1}, {"of": 7}], ids=lambda value: next(iter(value))
    )
    def test_a_message_of_another_snapshot(self, changes: dict[str, Any], taken: Snapshot) -> None:
        """Every message says which snapshot of which model it is a part of, and which part."""
        with pytest.raises(SnapshotError, match=f"found .*'{next(iter(changes))}': '?{next(iter(changes.values()))}"):
            SnapshotDecoder(empty(), pointer(taken)).add(resealed(taken.messages[0], **changes))

    def test_messages_out_of_order(self, taken: Snapshot) -> None:
        """The manifest can't come first."""
        with pytest.raises(SnapshotError, match=r"message 0: expected .*'index': 0.*found .*'index': 1"):
            SnapshotDecoder(empty(), pointer(taken)).add(taken.messages[1])

    @pytest.mark.parametrize("found", [0, FORMAT + 1])
    def test_another_format(self, found: int, taken: Snapshot) -> None:
        """The refusal names both formats, and the two ways to start over: a replay, or a model file."""
        expected = f"expected a message of format {FORMAT}, found {found}; to start over, use a new worker.group, .*"
        with pytest.raises(FormatError, match=expected + r"topics\.examples again.*worker\.from_model"):
            SnapshotDecoder(empty(), pointer(taken)).add(resealed(taken.messages[0], v=found))
        with pytest.raises(FormatError, match=expected):
            read_stored_manifest(resealed(taken.messages[-1], v=found))

    def test_another_configuration(self, taken: Snapshot) -> None:
        """A table of another size does not get these blocks, even under the same fingerprint."""
        settings = SETTINGS._replace(options=Options(bits=9))
        with pytest.raises(SnapshotError, match="expected"):
            restore(PartitionModel(TOPIC, 0, LINEAGE, settings, DECODER), taken.messages, pointer(taken))

    def test_another_lineage(self, taken: Snapshot) -> None:
        """A model that has left out a gap is another one."""
        lineage = PROVENANCE.lineage(0, 0, [Gap(3, 5)])
        with pytest.raises(SnapshotError, match=f"expected .*{lineage.model}"):
            restore(empty(lineage), taken.messages, pointer(taken))

    @pytest.mark.parametrize("name", ["topic", "partition", "start", "options", "digest"])
    def test_a_manifest_of_something_else(self, name: str, taken: Snapshot) -> None:
        """Every fact that the worker knows already is compared."""
        last = rewritten(taken.messages[-1], lambda manifest: manifest.update({name: "other"}))
        with pytest.raises(SnapshotError, match=f"the manifest: expected {name} .*, found other"):
            restore(empty(), [*taken.messages[:-1], last], pointer(taken))

    @pytest.mark.parametrize("name", sorted(grown().sums))
    def test_a_manifest_without_an_array(self, name: str, taken: Snapshot) -> None:
        """Nothing of the state is filled in with zeros."""
        last = rewritten(taken.messages[-1], lambda manifest: manifest["arrays"].pop(name))
        with pytest.raises(SnapshotError, match="expected the state of this model"):
            restore(empty(), [*taken.messages[:-1], last], pointer(taken))

    def test_a_sound_message_with_another_state(self, taken: Snapshot) -> None:
        """What all checks let pass but the digest over the state."""

        def change(manifest: dict[str, Any]) -> None:
            form, data = manifest["arrays"]["clock"]
            manifest["arrays"]["clock"] = [form, (np.frombuffer(data, form) + 1).tobytes()]

        last = rewritten(taken.messages[-1], change)
        with pytest.raises(SnapshotError, match=f"expected a state with digest {taken.digest}, found"):
            restore(empty(), [*taken.messages[:-1], last], pointer(taken))

    @pytest.mark.parametrize("field", ["weight", "average"])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_weights_that_are_not_finite_are_not_saved(self, field: str, value: float) -> None:
        """A broken model must not become what workers restore for ever."""
        model = grown()
        as_apple(model.learner).table.slots[field][9] = value
        with pytest.raises(ModelError, match=f"expected finite weights, found {value} among the values of {field}"):
            encode_snapshot(model)
