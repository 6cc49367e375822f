"""Every format, written and read back."""

import gzip
import json
import tempfile
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_apple.core.batch import Limits
from stream_apple.errors import InputFileError
from stream_apple.files import read_examples
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.reasons import Reason

_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
# As the message holds them; what a text holds beyond that is cut off later anyway.
_VALUES = st.floats(-(2.0**60), 2.0**60, width=32, exclude_min=True, exclude_max=True)
_WEIGHTS = st.floats(0, 1e6)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="|:'\ufeff"),
    min_size=1,
    max_size=6,
)
_INDICES = st.integers(0, 1 << 40).map(str)

_svmlight = st.builds(
    Example,
    label=_NUMBERS,
    weight=st.just(1.0),
    id=st.none(),
    features=st.dictionaries(_INDICES, _VALUES, max_size=5),
    timestamp_ms=st.none(),
    key=st.none(),
    record=st.none(),
)
_text = st.builds(
    lambda labelled, tag, features: Example(labelled[0], labelled[1], tag, features),
    # A weight stands behind a label, so an unlabelled line has none.
    st.one_of(st.tuples(_NUMBERS, _WEIGHTS), st.just((None, 1.0))),
    st.none() | _WORDS,
    st.dictionaries(st.just("") | _WORDS, st.dictionaries(_WORDS, _VALUES, min_size=1, max_size=4), max_size=3),
)
_record = st.builds(
    Example,
    label=st.none() | _NUMBERS,
    weight=_WEIGHTS,
    id=st.none() | _TEXT | st.integers(-(2**63), 2**64 - 1),
    features=st.one_of(
        st.dictionaries(_TEXT, _VALUES, max_size=5),
        st.dictionaries(_TEXT, st.dictionaries(_TEXT, _VALUES, max_size=3), max_size=3),
    ),
    timestamp_ms=st.none(),
    key=st.none(),
    record=st.none(),
)
_message = st.one_of(
    _record,
    st.builds(
        Example,
        label=st.none() | _NUMBERS,
        weight=_WEIGHTS,
        id=st.none() | st.binary(max_size=4),
        features=st.fixed_dictionaries({"indices": st.binary(max_size=16), "values": st.binary(max_size=8)}),
        timestamp_ms=st.none(),
        key=st.none(),
        record=st.none(),
    ),
)


def _as_svmlight(example: Example) -> bytes:
    pairs = [f"{index}:{value!r}" for index, value in example.features.items()]
    return (" ".join([repr(example.label), *pairs]) + "\n").encode()


def _as_text(example: Example) -> bytes:
    words = [] if example.label is None else [repr(example.label), repr(example.weight)]
    if example.id is not None:
        words.append(f"'{example.id!s}")
    sections = []
    for namespace, values in example.features.items():
        assert isinstance(values, dict)
        sections.append(f"|{namespace} " + " ".join(f"{name}:{value!r}" for name, value in values.items()))
    return (" ".join([*words, *(sections or ["|"])]) + "\n").encode()


def _keys(example: Example) -> dict[str, object]:
    """Return the example's keys; an id that it does not have is absent, and not null."""
    return {name: value for name, value in example._asdict().items() if name != "id" or value is not None}


def _as_json(example: Example) -> bytes:
    return json.dumps(_keys(example)).encode() + b"\n"


def _as_message(example: Example) -> bytes:
    packed: bytes = msgpack.packb(_keys(example))
    return packed


FORMATS = {
    "svmlight": (_svmlight, _as_svmlight),
    "Vowpal Wabbit text": (_text, _as_text),
    "JSON lines": (_record, _as_json),
    "msgpack": (_message, _as_message),
    "the stream's message": (_message, encode_example),
}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40)
@given(data=st.data(), packed=st.booleans())
def test_what_is_written_is_read(name: str, data: st.DataObject, packed: bool) -> None:  # noqa: FBT001  drawn
    """Label, weight, id and every feature come back equal to the last bit, in order."""
    strategy, write = FORMATS[name]
    examples = data.draw(st.lists(strategy, max_size=5))
    content = b"".join(map(write, examples))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "examples"
        path.write_bytes(gzip.compress(content) if packed else content)
        assert list(read_examples(path)) == examples


@given(
    st.dictionaries(
        _TEXT,
        _VALUES | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    )
)
def test_a_file_and_the_topic_give_a_record_the_same_features(features: dict[str, object]) -> None:
    """What a JSON line is sent as has the keys and values that the same line has as a record; categories too."""
    line = json.dumps({"features": features, "label": 1}).encode()
    decoder = Decoder(Limits(1000, 1_000_000, 1.0, -1.0, 1.0, binary=False))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "examples"
        path.write_bytes(line + b"\n")
        try:
            (example,) = read_examples(path)
        except InputFileError:
            # Two of them are one, which files refuse; or it is what the topic refuses as well.
            is_one = any(f"{name}={value}" in features for name, value in features.items())
            assert is_one or decoder.decode([line]).reasons[0] != Reason.OK
            return
    sent = decoder.decode([encode_example(example)])
    pairs = sorted(zip(sent.batch.keys.tolist(), sent.batch.values.tolist(), strict=True))
    found = decoder.decode([line])
    assert sorted(zip(found.batch.keys.tolist(), found.batch.values.tolist(), strict=True)) == pairs
