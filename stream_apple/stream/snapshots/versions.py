"""Formats of snapshots, from the first to the present one, and the conversion of each to the next.

Whoever changes `SLOT`, or the names, types or sizes of the other arrays of a model's state, must

    1. set VERSION to the next free number, and add the new layout of a block to `_COLUMNS`, without changing old ones;
    2. add to `_UPGRADES` the two functions that convert the previous format's columns and manifest;
    3. add a golden snapshot of the new format to `tests/data`; the old ones stay, and must always be restorable.

Workers read every format up to their own and write their own, so an upgrade needs no further step; a downgrade is
refused with a message. If the *meaning* of the state changes (the same records would give another model), then
`lineage.FORMAT` must change instead, and old models can't be continued.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VERSION = 2
REFERENCE = 3
"""Format of a snapshot that is a manifest alone, and refers to the table of a merged model. So the next format of whole
snapshots has number 4."""

BlockColumns = dict[str, NDArray[Any]]
Manifest = dict[str, Any]
Layout = tuple[tuple[str, str], ...]


class Upgrade(NamedTuple):
    """The two functions that convert one format to the next; each may change its argument, and returns the result."""

    columns: Callable[[BlockColumns], BlockColumns]
    manifest: Callable[[Manifest], Manifest]


# Name and type of each column of a block, in their order; the tags and the admission filter of its buckets follow.
_COLUMNS: dict[int, Layout] = {
    1: (
        ("key", "<u8"),
        ("weight", "<f4"),
        ("gradient", "<f4"),
        ("scale", "<f4"),
        ("linear_weight", "<f4"),
        ("linear_gradient", "<f4"),
        ("degree", "u1"),
        ("parent", "u1"),
    ),
    2: (
        ("key", "<u8"),
        ("weight", "<f4"),
        ("gradient", "<f4"),
        ("scale", "<f4"),
        ("linear_weight", "<f4"),
        ("linear_gradient", "<f4"),
        ("degree", "u1"),
        ("parent", "u1"),
        ("sights", "u1"),
    ),
}


def _columns_with_sights(columns: BlockColumns) -> BlockColumns:
    """Add the column of sights, all 0: models of format 1 have one predictor, which does not count them."""
    return columns | {"sights": np.zeros(len(columns["key"]), np.uint8)}


def _manifest_with_sights(manifest: Manifest) -> Manifest:
    """Add the constant's sights; models of format 1 have no companions and no measurements besides their state."""
    manifest["constant"]["sights"] = bytes(1)
    return manifest | {"companion": b"", "observed": {}}


_UPGRADES: dict[int, Upgrade] = {1: Upgrade(_columns_with_sights, _manifest_with_sights)}
"""Format -> its conversion to the next one."""


def is_known(version: int) -> bool:
    """Whether snapshots of this format can be read."""
    return 0 < version <= VERSION or version == REFERENCE


def columns_of(version: int) -> Layout:
    """Return the columns of a block in format `version`."""
    return _COLUMNS[version]


def upgrade_columns(version: int, columns: BlockColumns) -> BlockColumns:
    """Return a block's columns in the present format."""
    for step in range(version, VERSION):
        columns = _UPGRADES[step].columns(columns)
    return columns


def upgrade_manifest(version: int, manifest: Manifest) -> Manifest:
    """Return a manifest in the present format; a damaged one may give any result, or any of DAMAGES (`blocks.py`)."""
    for step in range(version, VERSION):
        manifest = _UPGRADES[step].manifest(manifest)
    return manifest
