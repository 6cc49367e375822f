"""When the first `discretise = "auto"` cut numbers, and which; and of which rows a part of a batch is made."""

import numpy as np
import pytest
from learners.apple.preparation.test_discretisation import BY_KEY, as_learned, prepared, rows_of, told
from learners.apple.test_learner import batch_of

from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.preparation.reservoir import FEWEST, FEWEST_OF_BOTH


def test_auto_cuts_soon_and_what_is_rare() -> None:
    """After 150 learned, and what has been seen five times: its value stays beside. Quantiles alone wait for 16."""
    rows = rows_of(400, 14)
    learned = [at for at, row in enumerate(rows) if row.label is not None and row.weight]
    seen = sum("rare" in rows[at].features for at in learned[:150])
    assert FEWEST_OF_BOTH["auto"] <= seen < FEWEST
    both, quantile = prepared("auto", rows, reservoir=150)[0], prepared("quantile", rows, reservoir=150)[0]
    assert {BY_KEY[each] for each in both.intervals.features.tolist()} == {"dense", "zeros", "rare"}
    assert {BY_KEY[each] for each in quantile.intervals.features.tolist()} == {"dense", "zeros"}
    preparation, batch = prepared("auto", rows)
    cut = [any("\u2208" in name for name in told(preparation, batch, at)) for at in range(len(rows))]
    assert cut == [at > learned[149] for at in range(len(rows))]
    few = [row._replace(features={"dense": row.features["dense"]}) for row in rows]
    for at in learned[: FEWEST_OF_BOTH["auto"] - 1]:
        few[at].features["rare"] = float(at + 1)
    preparation, _ = prepared("auto", few)
    assert [BY_KEY[each] for each in preparation.intervals.features.tolist()] == ["dense"]


@pytest.mark.parametrize("cut", [False, True])
def test_a_part_of_a_batch_is_prepared_without_the_rest(*, cut: bool) -> None:
    """Whether anything is cut or not: a few rows of many cost what they would alone, where epochs end often."""
    rows = rows_of(400, 15)
    if not cut:
        rows = [row._replace(features=dict.fromkeys(row.features, 1.0)) for row in rows]
    batch, preparation = batch_of(rows), Preparation(Options())
    as_learned(preparation, batch, 0, 300)
    assert (len(preparation.intervals.cuts) > 0) == cut
    part, alone = as_learned(preparation, batch, 300, 310), preparation.prepare(batch.select(np.arange(300, 310)))
    for name, column in part._asdict().items():
        assert np.array_equal(column, getattr(alone, name)), name
