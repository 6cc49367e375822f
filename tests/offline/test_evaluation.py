"""One pass over examples: where its epochs end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.offline.schedule import Schedule, epoch_ends


@given(examples=st.integers(0, 5000), epochs=st.integers(1, 20), doubling=st.none() | st.integers(1, 2000))
def test_epoch_ends_are_ascending_and_cover_everything(examples: int, epochs: int, doubling: int | None) -> None:
    """At most `epochs` parts of equal length, or ends at doubling * 2^k; the last end is the last example."""
    ends = epoch_ends(examples, Schedule(epochs=epochs, doubling=doubling))
    lengths = np.diff([0, *ends])
    assert ends[-1] == examples
    assert (lengths > 0).all() or examples == 0
    if doubling:
        assert ends[:-1] == [doubling << k for k in range(len(ends) - 1)]
    else:
        assert len(ends) <= epochs
        assert len(set(lengths[:-1])) <= 1


@given(examples=st.integers(0, 50), given_ends=st.sets(st.integers(1, 60)))
def test_given_epoch_ends_are_those_within(examples: int, given_ends: set[int]) -> None:
    """Those behind the training examples are dropped, and the other rules do not apply."""
    ends = epoch_ends(examples, Schedule(epochs=3, doubling=2, ends=tuple(sorted(given_ends))))
    assert ends == [*sorted(end for end in given_ends if end < examples), examples]
