"""Model files that somebody else has made: each is a model, or is refused with the reason, in bounded memory."""

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from app.test_model_files import save
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.snapshots.forgery import content_of, file_of, forged_file, rewritten

from stream_apple.app.model_files import opened_model
from stream_apple.errors import ConfigurationError, SnapshotError
from stream_apple.monitoring.inspection import view_model

PLACE = Path("somewhere")
_FOUND = re.compile(r"state with digest [0-9a-f]{32}, found ([0-9a-f]{32})")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """That of a small model."""
    path = tmp_path_factory.mktemp("models") / "0"
    save(path, 0, {"bits": 8})
    return path.read_bytes()


def look_at(content: bytes) -> str:
    """All that `inspect --file` makes of a file's content; the reason if it is refused."""
    why = ""
    try:
        opened = opened_model(content, PLACE)
        with np.errstate(all="ignore"):
            view_model(opened.model, opened.names(), 10, opened.saved.pointer).facts(10)
    except (SnapshotError, ConfigurationError) as error:
        why = str(error)
    assert len(why) < 3000
    assert not why or "somewhere" in why or "learner.bits" in why
    return why


def agreed(content: bytes) -> bytes:
    """With the digest of the state that is in it, as somebody writes it who knows how."""
    found = _FOUND.search(look_at(content))
    if found is None:
        return content
    parts = content_of(content)
    parts["pointer"][3] = found[1]
    parts["messages"][-1] = rewritten(parts["messages"][-1], lambda manifest: {**manifest, "digest": found[1]})
    return file_of(parts)


@settings(max_examples=120)
@given(st.randoms(use_true_random=False))
def test_any_forgery_is_a_model_or_a_reason(file: bytes, random: Random) -> None:
    """Parts of other types, huge numbers, bytes for text, damage behind checksums; and digests that agree with it."""
    look_at(agreed(forged_file(random, file)))


def test_what_was_not_touched_is_a_model(file: bytes) -> None:
    """The forger's tools leave a model alone that they are not asked to change."""
    assert look_at(file) == look_at(file_of(content_of(file))) == look_at(agreed(file)) == ""
