"""The selection of tuples is state: a model that is restored goes on to the bit, wherever the stream is cut."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.apple.categories import batch_of_cases, cases_of_codes
from learners.apple.tuples.test_tuple_selection import drawn, learned, learner_of
from support.restoring import restored

from stream_apple.learners.apple.state.table import COUNTS
from stream_apple.learners.scores import Scores


class TestRecovery:
    """The selection is state: it is in snapshots and digests, and nothing depends on how the stream is cut."""

    @settings(deadline=None, max_examples=15)
    @given(
        cuts=st.lists(st.integers(1, 3599), max_size=4, unique=True).map(sorted),
        chosen=st.sampled_from([{}, {"selection": "cv"}, {"hierarchical": True, "order": 3}, {"loss": "squared"}]),
    )
    def test_restored_anywhere(self, cuts: list[int], chosen: dict[str, Any]) -> None:
        """Epochs end at 1200 and 2400; at each cut the model is written into a new one, which goes on."""
        codes = drawn(3600, [4] * 5, 19)
        batch = batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1]))
        whole, learner = learner_of(bits=9, **chosen), learner_of(bits=9, **chosen)
        expected, found = learned(whole, batch, [1200, 2400]), Scores.empty(3600)
        ends = (1200, 2400)
        for start, stop in itertools.pairwise(sorted({0, *cuts, *ends, 3600})):
            learner.learn(batch, start, stop, found)
            learner = restored(learner)
            if stop in ends:
                learner.end_epoch()
        assert np.array_equal(found.predictions, expected)
        assert learner.digest() == whole.digest()
        assert whole.selection.level == (3 if "order" in chosen or not chosen.get("hierarchical") else 2)

    def test_a_selection_of_another_kind_is_refused(self) -> None:
        """Missing arrays, and such of another type."""
        learner = learner_of()
        sums = learner.sums
        with pytest.raises(ValueError, match="expected arrays"):
            learner_of().restore({name: array for name, array in sums.items() if name != "tuples_known"})
        with pytest.raises(ValueError, match="tuples_chosen: expected uint64"):
            learner_of().restore({**sums, "tuples_chosen": np.zeros(3)})
        with pytest.raises(ValueError, match="expected arrays"):
            learner_of(selection_share=1.0).restore(sums)

    @pytest.mark.parametrize("form", [COUNTS], ids=["counts"])
    def test_what_stands_beside_slots_has_no_gaps(self, form: np.dtype[np.void]) -> None:
        """NumPy leaves the bytes between fields as they come, and a digest over them would differ at random."""
        assert form.itemsize == sum(form[name].itemsize for name in form.names or ())

    def test_the_digest_sees_it(self) -> None:
        """Each of its arrays."""
        codes = drawn(1500, [3] * 4, 20)
        learner = learner_of()
        learned(learner, batch_of_cases(cases_of_codes(codes, codes[:, 0] == codes[:, 1])), [1400])
        digest = learner.digest()
        for name in ("tuples_chosen", "tuples_known", "tuples_state"):
            learner.sums[name][0] += 1
            assert learner.digest() != digest
            learner.sums[name][0] -= 1
        assert learner.digest() == digest
