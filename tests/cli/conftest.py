"""What several tests of commands have."""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """3,000 examples whose label is the exclusive or of two features, among others that say nothing."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 2, (3000, 6))
    lines = [
        f"{1 if a != b else -1} | {'a' if a else 'A'} {'b' if b else 'B'} "
        + " ".join(f"n{i}" for i in np.flatnonzero(rest))
        for a, b, *rest in bits.tolist()
    ]
    path = tmp_path / "pairs.vw"
    path.write_text("\n".join(lines) + "\n")
    return path
