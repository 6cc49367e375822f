"""The format of a file, as `stream_apple.files` detects it."""

from pathlib import Path

from stream_apple.files.detection import FileFormat, detect_format
from stream_apple.files.input_stream import opened


def detect(path: Path) -> FileFormat | None:
    """Return the format by the content; None if the file holds no example."""
    with opened(path) as stream:
        return detect_format(stream)[0]
