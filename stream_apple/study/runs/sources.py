"""The sources on which a result depends, so that results of another learner or protocol are not taken for new ones."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import stream_apple.core


def sources_of_core() -> list[Path]:
    """Return the source files that decide what the product learns."""
    return [path for folder in stream_apple.core.__path__ for path in sorted(Path(folder).rglob("*.py"))]


def digest_of_files(sources: Sequence[Path]) -> str:
    """Return a hash, 16 hex digits, of the contents of the files, in this order."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
