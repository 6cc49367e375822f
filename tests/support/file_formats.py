"""The format of a file, as `stream_apple.files` detects it, and its examples."""

from pathlib import Path
from typing import Any

from stream_apple.files import BY_NAME, FileShape, read_examples
from stream_apple.files.detection import FileFormat, detect_format
from stream_apple.files.input_stream import opened
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.example import Example


def detect(path: Path) -> FileFormat | None:
    """Return the format by the content; None if the file holds no example."""
    with opened(path) as stream:
        return detect_format(stream)[0]


def shape_of(**mapping: Any) -> FileShape:
    """Return the shape of these settings of [input]."""
    return FileShape(InputMapping(**mapping), says_features="features" in mapping)


def flat_examples(path: Path, shape: FileShape = BY_NAME, key: str = "") -> list[Example]:
    """Return the examples of a file; the features of the namespace "" without it, if there is no other."""
    found = []
    for example in read_examples(path, shape, key):
        features: Any = example.features
        found.append(example._replace(features=features[""] if features.keys() == {""} else features))
    return found
