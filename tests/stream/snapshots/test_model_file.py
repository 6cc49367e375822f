"""A model in a file is the model, with its names; a damaged file is refused with the reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.snapshots import LINEAGE, empty, grown

from stream_apple.errors import FormatError, SnapshotError
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.snapshots.model_file import FORMAT, model_file_of, read_model_file

SECTIONS: dict[str, Any] = {
    "learner": {"bits": 10}, "epochs": {"length": "1h"}, "limits": {}, "input": {}, "output": {"format": "json"}
}  # fmt: skip
SETTINGS = {**SECTIONS, "registry": True}


def written() -> bytes:
    """A file of a grown model."""
    model, names = grown(), Names()
    names.add([(1, "a"), (2**64 - 1, "gr\u00fc\u00df")])
    return model_file_of(model, "group", SETTINGS, SnapshotPointer(model.next_offset, 7, 9, model.digest()), names)


CONTENT = written()


def test_comes_back_to_the_bit() -> None:
    """State, lineage, settings, pointer and names are what was saved."""
    saved = read_model_file(CONTENT, "file")
    model = empty()
    saved.restore(model)
    assert model.digest() == grown().digest() == saved.pointer.digest
    assert (saved.pointer.first, saved.pointer.last) == (7, 9)
    assert (saved.group, saved.topic, saved.partition) == ("group", model.topic, 0)
    assert saved.lineage == LINEAGE
    assert (saved.settings.sections(), saved.settings.registry) == (SECTIONS, True)
    assert saved.names == {1: "a", 2**64 - 1: "gr\u00fc\u00df"}


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place: int, change: int) -> None:
    """Wherever a byte differs, the file is refused."""
    damaged = bytearray(CONTENT)
    damaged[place] ^= change
    with pytest.raises(SnapshotError, match="file: expected"):
        read_model_file(bytes(damaged), "file")


@pytest.mark.parametrize("size", [0, 10, 30, len(CONTENT) // 2, len(CONTENT) - 1])
def test_a_cut_file_is_noticed(size: int) -> None:
    """A file whose end is missing is refused."""
    with pytest.raises(SnapshotError, match="file: expected"):
        read_model_file(CONTENT[:size], "file")


def test_what_is_wrong_is_told() -> None:
    """Another kind of file, another format, and a damaged file have messages of their own."""
    line, _, rest = CONTENT.partition(b"\n")
    with pytest.raises(SnapshotError, match="inspect --save"):
        read_model_file(b"PNG", "file")
    for found in (0, FORMAT + 1):
        other = line.replace(str(FORMAT).encode(), str(found).encode())
        with pytest.raises(FormatError, match=f"format {FORMAT}, found {found}; to start over, .*worker.from_model"):
            read_model_file(other + b"\n" + rest, "file")
    with pytest.raises(SnapshotError, match="digest"):
        read_model_file(CONTENT + b"x", "file")


def test_only_the_state_that_was_found_is_saved() -> None:
    """A pointer of another state is refused: the file would not be what it says."""
    model = grown()
    with pytest.raises(SnapshotError, match="expected the state of"):
        model_file_of(model, "group", SETTINGS, SnapshotPointer(model.next_offset, 7, 9, "0" * 32), Names())
