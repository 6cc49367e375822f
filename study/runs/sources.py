"""The sources on which a result depends, so that results of another learner or protocol are not taken for new ones."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import stream_apple.core
import stream_apple.learners


def digest_of_learners() -> str:
    """Return a hash, 16 hex digits, of the source files that decide what the product learns."""
    folders = (*stream_apple.core.__path__, *stream_apple.learners.__path__)
    return _digest(path for folder in folders for path in sorted(Path(folder).rglob("*.py")))


def digest_of_modules(modules: Iterable[ModuleType]) -> str:
    """Return a hash, 16 hex digits, of the sources of these modules, in this order."""
    return _digest(Path(module.__file__ or "") for module in modules)


def _digest(sources: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
