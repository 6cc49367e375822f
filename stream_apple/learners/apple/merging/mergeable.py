"""The mergeable part of a model: its table, the sums in `MERGED_SUMS`, and how its examples are prepared."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.learner import as_apple, is_of_preparation
from stream_apple.learners.apple.merging.totals import MERGED_SUMS
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import COMPANION, RESIDUALS, SLOT, Table
from stream_apple.learners.merging_port import Mergeable
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.state import LearnerState, Rows


def mergeable_of(learner: Port) -> Mergeable:
    """Return the mergeable part of a learner: the arrays themselves."""
    own = as_apple(learner)
    return mergeable_from(own.options, own.table, own.sums)


def mergeable_from(options: Options, table: Table, sums: Mapping[str, NDArray[Any]]) -> Mergeable:
    """Return the mergeable part of a model with this table; of `sums`, only what is merged is in it."""
    kept = {name: array for name, array in sums.items() if name in MERGED_SUMS or is_of_preparation(name)}
    kept |= table.constant
    return Mergeable(options, LearnerState(table.rows, {name: kept[name] for name in sorted(kept)}))


def table_of_rows(rows: Rows) -> Table:
    """Return a table of these rows, as of `Table.rows`: views, without the constant's slot."""
    flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in rows.items()}
    return _table(tags=flat.pop("tags"), admission_filter=flat.pop("admission_filter"), **flat)


def constant_of(sums: Mapping[str, NDArray[Any]]) -> Table:
    """Return a table that has the constant's slot only, by the sums that `Table.constant` has: views."""
    found: dict[str, NDArray[Any]] = {"slots": sums["constant_weights"].view(SLOT)}
    if (companion := sums.get("constant_companion")) is not None:
        found["companions"] = companion.view(COMPANION)
    if (residuals := sums.get("constant_residuals")) is not None:
        found["residuals"] = residuals.view(RESIDUALS)
    if (of_classes := sums.get("constant_class_weights")) is not None:
        found["class_weights"] = of_classes.view(np.float32).reshape(1, -1)
    return _table(tags=np.zeros(0, np.uint64), admission_filter=np.zeros(0, np.uint8), **found)


def _table(**arrays: NDArray[Any]) -> Table:
    """Return a table of these arrays; side arrays that are not given are empty."""
    empty: dict[str, NDArray[Any]] = {
        "companions": np.zeros(0, COMPANION),
        "residuals": np.zeros(0, RESIDUALS),
        "class_weights": np.zeros((0, 0), np.float32),
    }
    return Table(**{**empty, **arrays})
