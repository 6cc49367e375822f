"""Lookups of a node's products, against whole numbers of Python's own."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.expansion import list_absent, list_fitting, look_up, put_hit
from stream_apple.learners.apple.state.table import Extent, Index, Table, empty_table
from stream_apple.learners.apple.state.work import BaseFeatures, Hits, Lookups, empty_hits, empty_work

BEFORE = 3  # hits that are listed already
NODE = 77

LookUp = Callable[[Table, BaseFeatures, Index, Index, np.float32, Lookups, Hits], tuple[Index, Index]]


def look_up_products(
    table: Table, base: BaseFeatures, first: Index, key: Index, x: np.float32, lookups: Lookups, hits: Hits
) -> tuple[Index, Index]:
    """Look up a node's products; return how many tags fit, and how many products are absent, which are listed."""
    look_up(table.tags, lookups, base, first, key)
    fitting = list_fitting(lookups, base.stop - first)
    for n in range(fitting):
        put_hit(table, hits, np.uint64(BEFORE) + n, lookups, lookups.listed[n], base, first, x, np.uint64(NODE))
    return fitting, list_absent(lookups, base.stop - first)


@kernel
def compiled_look_up(
    table: Table, base: BaseFeatures, first: Index, key: Index, x: np.float32, lookups: Lookups, hits: Hits
) -> tuple[Index, Index]:
    """The same, compiled."""
    look_up(table.tags, lookups, base, first, key)
    fitting = list_fitting(lookups, base.stop - first)
    for n in range(fitting):
        put_hit(table, hits, np.uint64(BEFORE) + n, lookups, lookups.listed[n], base, first, x, np.uint64(NODE))
    return fitting, list_absent(lookups, base.stop - first)


def table_with_duplicates(rng: np.random.Generator, bits: int) -> Table:
    """Buckets of few different tags, some full, some with free slots, in any order."""
    table = empty_table(bits, Extent())
    tags = rng.choice(np.array([0, 1, 3, 129, 255], np.uint8), (len(table.tags), 8))
    tags[0], tags[1] = 0, 129
    table.tags[:] = tags.view(np.uint64).ravel()
    return table


def slot_of(tags: NDArray[np.uint64], key: int) -> int | None:
    """The first slot whose tag is the key's, byte by byte."""
    bucket = key >> 8 & len(tags) - 1
    wanted = key & 0xFF | 1
    for within, tag in enumerate(int(tags[bucket]).to_bytes(8, "little")):
        if tag == wanted:
            return bucket * 8 + within
    return None


@pytest.mark.parametrize("way", [compiled_look_up, look_up_products], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("bits", [8, 15])
def test_each_product_is_looked_up(way: LookUp, bits: int) -> None:
    """Keys wrap at 2^64, and values are float32 products; each product is a hit, or it is absent."""
    rng = np.random.default_rng(bits)
    table = table_with_duplicates(rng, bits)
    constant = len(table.slots) - 1
    special = np.array([0.0, -0.0, np.inf, -1e38, 1e-45, np.nan, 3.5, 1e38, 2.0**30, TOO_LARGE], np.float32)
    for _ in range(300):
        size = int(rng.integers(1, 30))
        keys = rng.integers(0, 1 << 64, size, np.uint64)
        keys[rng.random(size) < 0.7] &= np.uint64(0xFFFF83)
        values = np.where(rng.random(size) < 0.3, rng.choice(special, size), rng.normal(size=size)).astype(np.float32)
        first = int(rng.integers(size))
        key = int(rng.choice(np.array([0, 0x180, (1 << 64) - 1], np.uint64)))
        x = np.float32(rng.choice(special))
        lookups, hits = empty_work(size, size).lookups, empty_hits(BEFORE + size)
        base = BaseFeatures(keys, values, np.empty(0, np.uint8), np.uint64(0), np.uint64(size))
        with np.errstate(all="ignore"):
            fitting, absent = way(table, base, np.uint64(first), np.uint64(key), x, lookups, hits)
            expected_x = values * x
        found, missing = [], []
        for feature in range(first, size):
            product = (key + int(keys[feature])) % 2**64
            slot = slot_of(table.tags, product)
            if slot is None:
                missing.append(feature - first)
            else:
                own = 0 < abs(expected_x[feature]) < TOO_LARGE
                found.append((product, NODE, feature, slot if own else constant))
        assert lookups.listed[: int(absent)].tolist() == missing
        listed = slice(BEFORE, BEFORE + int(fitting))
        assert list(zip(*(column[listed].tolist() for column in hits[:1] + hits[2:]), strict=True)) == found
        np.testing.assert_array_equal(hits.x[listed], expected_x[[feature for _, _, feature, _ in found]])
        assert not hits.key[:BEFORE].any()


def test_the_lookups_find_and_miss() -> None:
    """The test above sees buckets with the tag once, several times, and not at all."""
    tags = table_with_duplicates(np.random.default_rng(8), 8).tags
    counts = [int(tag == 129) for word in tags.tolist() for tag in word.to_bytes(8, "little")]
    per_bucket = {sum(counts[start : start + 8]) for start in range(0, len(counts), 8)}
    assert {0, 1, 2} <= per_bucket
