"""What all simulations share."""

from collections.abc import Iterator

import pytest
from simulation.small import small


@pytest.fixture(autouse=True)
def smallness() -> Iterator[None]:
    """Snapshots of many messages and restores of many turns, though models are small; no log lines."""
    with small():
        yield
