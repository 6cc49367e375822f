"""Eight lookups at once, lane by lane against whole numbers of Python's own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from core.machine_code import LEAST, counts_references, machine_code
from numpy.typing import NDArray
from support.from_python import from_python

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.lanes import (
    Multiplier,
    append,
    append_one_by_one,
    bits_in,
    copy_words,
    copy_words_one_by_one,
    count_bits,
    look_up,
    look_up_one_by_one,
)
from stream_apple.learners.apple.state.table import Index, Words
from stream_apple.learners.apple.state.table import insertion_point as insertion_point_routine
from stream_apple.learners.apple.state.work import LANES, BaseFeatures, Numbers, Products, empty_products

insertion_point = from_python(insertion_point_routine)

TESTS = Path(__file__).parents[3]


WORDS_BEFORE = 3  # of other products, in the scratch of the words


@kernel
def compiled_look_up(
    tags: Words, words: Words, base: BaseFeatures, first: Index, node: Multiplier, products: Products, end: Index
) -> Index:
    """What kernels call can't be called from here."""
    at = np.uint64(WORDS_BEFORE)
    copy_words(tags, base, first, node.key, words, at)
    return look_up(tags, words, base, first, node, products, end, at)


def interpreted_look_up(
    tags: Words, words: Words, base: BaseFeatures, first: Index, node: Multiplier, products: Products, end: Index
) -> Index:
    """The same in Python."""
    at = np.uint64(WORDS_BEFORE)
    copy_words_one_by_one(tags, base, first, node.key, words, at)
    return look_up_one_by_one(tags, words, base, first, node, products, end, at)


@kernel
def compiled_append(numbers: Numbers, end: Index, base: Index, chosen: Index) -> Index:
    """The same."""
    return append(numbers, end, base, chosen)


@kernel
def compiled_bits_in(number: Index) -> Index:
    """The same."""
    return bits_in(number)


def tags_with_duplicates(rng: np.random.Generator, buckets: int) -> NDArray[np.uint64]:
    """Buckets of few different tags, some full, some with free slots, in any order."""
    tags = rng.choice(np.array([0, 1, 3, 129, 255], np.uint8), (buckets, 8))
    tags[0], tags[1] = 0, 129
    return tags.view(np.uint64).ravel()


def slot_of(tags: NDArray[np.uint64], key: int) -> int | None:
    """The first slot whose tag is the key's, byte by byte."""
    bucket = key >> 8 & len(tags) - 1
    wanted = key & 0xFF | 1
    for within, tag in enumerate(int(tags[bucket]).to_bytes(8, "little")):
        if tag == wanted:
            return bucket * 8 + within
    return None


@pytest.mark.parametrize("way", [compiled_look_up, interpreted_look_up], ids=["vectors", "one by one"])
@pytest.mark.parametrize("buckets", [32, 4096])
def test_each_lane_is_a_lookup(way: object, buckets: int) -> None:
    """Keys wrap at 2^64, values are float32 products, the byte says where a tag fits; also at the end of the arrays."""
    assert callable(way)
    rng = np.random.default_rng(buckets)
    tags, constant = tags_with_duplicates(rng, buckets), 8 * buckets
    special = np.array([0.0, -0.0, np.inf, -1e38, 1e-45, np.nan, 3.5, 1e38, 2.0**30, TOO_LARGE], np.float32)
    for _ in range(300):
        size = int(rng.integers(1, 30))
        keys = rng.integers(0, 1 << 64, size, np.uint64)
        keys[rng.random(size) < 0.7] &= np.uint64(0xFFFF83)
        values = np.where(rng.random(size) < 0.3, rng.choice(special, size), rng.normal(size=size)).astype(np.float32)
        first, end, number = int(rng.integers(size)), int(rng.integers(20)), int(rng.integers(1 << 32))
        key = int(rng.choice(np.array([0, 0x180, (1 << 64) - 1], np.uint64)))
        x = np.float32(rng.choice(special))
        products = empty_products(end + LANES)
        base = BaseFeatures(keys, values, np.empty(0, np.uint8), np.uint64(0), np.uint64(size))
        node = Multiplier(np.uint64(key), x, np.uint64(number))
        with np.errstate(all="ignore"):
            words = np.full(WORDS_BEFORE + LANES, 77, np.uint64)
            fit = int(way(tags, words, base, np.uint64(first), node, products, np.uint64(end)))
            assert words[:WORDS_BEFORE].tolist() == [77] * WORDS_BEFORE
            expected_x = values * x
        count = min(size - first, LANES)
        assert fit >> count == 0
        for lane in range(count):
            at, expected_key = end + lane, (key + int(keys[first + lane])) % 2**64
            slot, x = slot_of(tags, expected_key), expected_x[first + lane]
            assert int(products.key[at]) == expected_key
            np.testing.assert_array_equal(products.x[at], x)
            assert int(products.node[at]) == number
            assert fit >> lane & 1 == (slot is not None)
            if slot is None:
                assert int(products.place[at]) == int(insertion_point(tags, np.uint64(expected_key)))
            else:
                assert int(products.place[at]) == (slot if 0 < abs(x) < TOO_LARGE else constant)


def test_the_lookups_find_and_miss() -> None:
    """The test above sees buckets with the tag once, several times, and not at all."""
    tags = tags_with_duplicates(np.random.default_rng(32), 32)
    counts = [int(tag == 129) for word in tags.tolist() for tag in word.to_bytes(8, "little")]
    per_bucket = {sum(counts[start : start + 8]) for start in range(0, len(counts), 8)}
    assert {0, 1, 2} <= per_bucket


@pytest.mark.parametrize("way", [compiled_append, append_one_by_one], ids=["vectors", "one by one"])
def test_appended_are_the_numbers_of_the_bits(way: object) -> None:
    """Every byte, from any place on; what was there before stays."""
    assert callable(way)
    for byte in range(256):
        numbers = np.full(20, 7, np.uint32)
        end = int(way(numbers, np.uint64(3), np.uint64(1000), np.uint64(byte)))
        bits = [bit for bit in range(8) if byte >> bit & 1]
        assert numbers[:end].tolist() == [7, 7, 7, *(1000 + bit for bit in bits)]
        assert end == 3 + len(bits)


@pytest.mark.parametrize("way", [compiled_bits_in, count_bits], ids=["compiled", "interpreted"])
def test_bits_are_counted(way: object) -> None:
    """Of every byte, and of all 64."""
    assert callable(way)
    for number in (*range(256), (1 << 64) - 1):
        assert int(way(np.uint64(number))) == sum(number >> bit & 1 for bit in range(64))


@pytest.fixture(scope="module")
def digests() -> str:
    """What this processor learns, with all that it has."""
    return learned()


def learned(first: str = "", **environment: str) -> str:
    """The digests of another process, which does something else first."""
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\nfrom learners.apple.learned_digests import show\nshow()"],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def learned_by(processor: str, cache: Path) -> str:
    """The digests with the instructions that a type of processor has, and no more; no reference is counted on it."""
    found = learned(NUMBA_CACHE_DIR=str(cache), NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES="")
    kernels = machine_code(cache)
    assert kernels
    assert not any(map(counts_references, kernels.values()))
    return found


@pytest.mark.long
def test_the_least_processor_learns_the_same_bits(digests: str, tmp_path: Path) -> None:
    """With what all have: on x86-64 SSE2, and neither gathers nor masks.

    What is compiled by who aims at a type is found by who is told of it, as in the image.
    """
    aim = f"from stream_apple.core.jit import aim_at\naim_at({LEAST!r})"
    assert learned(aim, NUMBA_CACHE_DIR=str(tmp_path)) == digests
    aimed = machine_code(tmp_path).keys()
    assert learned_by(LEAST, tmp_path) == digests
    assert machine_code(tmp_path).keys() == aimed


@pytest.mark.long
@pytest.mark.parametrize(
    ("processor", "needed"),
    [("skylake-avx512", "avx512vl"), ("skylake", "avx2"), ("znver3", "vaes"), ("nehalem", "sse4_2")],
)
def test_every_processor_learns_the_same_bits(processor: str, needed: str, digests: str, tmp_path: Path) -> None:
    """With AVX-512, with AVX2, with AVX2 and gathers taken apart, with SSE4; skipped where it can't run."""
    if needed not in Path("/proc/cpuinfo").read_text(encoding="utf-8").split():
        pytest.skip(f"this processor has no {needed}")
    assert learned_by(processor, tmp_path) == digests


def test_interpreted_kernels_learn_the_same_bits(digests: str) -> None:
    """Without the compiler too, so that coverage and a debugger can be trusted."""
    assert learned(NUMBA_DISABLE_JIT="1") == digests
