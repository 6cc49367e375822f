"""Formats of snapshots, from the first to the present one, and the way from each to the next.

The rule. Whoever changes `SLOT`, or the names, types or sizes of the other arrays of a model's state:

    1. adds one to VERSION, and the new layout of a block to `_COLUMNS`; old entries are never changed;
    2. adds to `_UPGRADES` the two functions that make the previous format's columns and manifest into the new ones;
    3. adds a golden snapshot of the new format to `tests/data`; the old ones stay, and must restore for ever.

Workers read every format up to their own and write their own, so an upgrade needs no ceremony; a downgrade is
refused with a message. If the *meaning* of the state changes (the same records would give another model), it is
not a snapshot's format that changes but `lineage.FORMAT`, and old models can't be continued.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VERSION = 2
REFERENCE = 3
"""Of a snapshot that is a manifest alone: the table is that of the merged model that it names. The next format of whole
snapshots is the fourth."""

BlockColumns = dict[str, NDArray[Any]]
Manifest = dict[str, Any]
Layout = tuple[tuple[str, str], ...]


class Upgrade(NamedTuple):
    """From one format to the next; either may change what it is given, and returns it."""

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
    """Models of the first format have one predictor, which does not count sights."""
    return columns | {"sights": np.zeros(len(columns["key"]), np.uint8)}


def _manifest_with_sights(manifest: Manifest) -> Manifest:
    """The constant's; such models have no companions, and observed nothing that they do not need."""
    manifest["constant"]["sights"] = bytes(1)
    return manifest | {"companion": b"", "observed": {}}


_UPGRADES: dict[int, Upgrade] = {1: Upgrade(_columns_with_sights, _manifest_with_sights)}
"""Format -> how to make it the next one."""


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
    """A manifest in the present format; anything may come of one that is damaged, and any error of Python's types."""
    for step in range(version, VERSION):
        manifest = _UPGRADES[step].manifest(manifest)
    return manifest
