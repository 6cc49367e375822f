"""One bucket of several models is merged as a plain oracle has it, bit for bit; and the cases that go wrong easily."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.apple.merging.bucket_oracle import (
    MOST,
    NEW_PARENT,
    PARENT,
    Owned,
    bucket_of_model,
    key_in_bucket,
    merged_bucket,
    model_of,
)
from learners.apple.merging.streams import adopted_table
from support.bare_options import bare

from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.merging_port import MergeCounts

MIXED, PLAIN = bare(bits=8), bare(bits=8, mixture=False)
KEYS = [key_in_bucket(number) for number in range(14)]
WEIGHTS = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-1e4, 1e4, width=32))
GRADIENTS = st.sampled_from([0.0, float(np.float32(1.2e-38)), 0.25, 1.0, 3.0, 1e9, MOST, math.inf])


@st.composite
def _owned(draw: st.DrawFn, key: int) -> Owned:
    return Owned(
        key,
        draw(st.sampled_from([key % 3 + 1, key % 3 + 1, key % 3 + 1, 1, 2])),
        draw(st.sampled_from([0, 0, 0, PARENT, NEW_PARENT, 2, 8, 128])),
        draw(WEIGHTS),
        draw(GRADIENTS),
        draw(st.sampled_from([0.0, 0.5, 1.0, 1024.0])),
        draw(st.integers(0, 255)),
        draw(WEIGHTS),
        draw(WEIGHTS),
        draw(WEIGHTS),
        draw(GRADIENTS),
        draw(WEIGHTS),
    )


@st.composite
def _bucket(draw: st.DrawFn) -> list[Owned]:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=8, unique=True))
    return [draw(_owned(key)) for key in keys]


def _counted(counts: MergeCounts) -> dict[str, int]:
    return {
        "won": counts.parents_won,
        "lost": counts.parents_lost,
        "retired": counts.parents_retired,
        "parents_evicted": counts.parents_evicted,
        "keys": counts.keys,
        "clashes": counts.degree_clashes,
        "kept": counts.kept,
    }


@pytest.mark.parametrize("union", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@settings(max_examples=50)
@given(buckets=st.lists(_bucket(), min_size=2, max_size=5))
def test_a_bucket_is_the_oracles(*, union: bool, mixed: bool, buckets: list[list[Owned]]) -> None:
    """Every field of every slot that survives, their order, their tags, and all that is counted."""
    options = MIXED if mixed else PLAIN
    unmixed: dict[str, Any] = {} if mixed else dict.fromkeys(("average", "fast", "slow_linear"), 0.0)
    buckets = [[replace(owned, **unmixed) for owned in bucket] for bucket in buckets]
    expected = merged_bucket(buckets, union=union)
    models = [model_of(options, bucket) for bucket in buckets]
    before = [model.digest() for model in models]
    found = merge(models, parents="union" if union else "votes")
    table = adopted_table(found.model)
    assert bucket_of_model(table) == expected.slots
    assert _counted(found.counts) == expected.counts
    assert found.counts.evicted == found.counts.keys - found.counts.kept
    assert np.count_nonzero(table.slots["key"]) == found.counts.kept
    tags = np.where(table.slots["key"][:-1] != 0, table.slots["key"][:-1] & 0xFF | 1, 0)
    assert table.tags.view(np.uint8).tolist() == tags.tolist()
    assert not table.slots["active"].any()
    assert not table.admission_filter.any()
    assert [model.digest() for model in models] == before


def _merged(*buckets: list[Owned]) -> dict[int, Owned]:
    table = adopted_table(merge([model_of(PLAIN, bucket) for bucket in buckets]).model)
    return {owned.key: owned for owned in bucket_of_model(table)}


def test_an_infinite_accumulator_is_the_largest() -> None:
    """It has the say, and makes no NaN: infinity over infinity."""
    found = _merged([Owned(KEYS[0], weight=2.0, gradient=math.inf)], [Owned(KEYS[0], weight=5.0, gradient=1.0)])
    assert (found[KEYS[0]].weight, found[KEYS[0]].gradient) == (2.0, MOST)


def test_without_accumulators_nothing_was_learned() -> None:
    """0 over 0 is 0."""
    found = _merged(*[[Owned(KEYS[0], weight=2.0, gradient=0.0)]] * 2)
    assert (found[KEYS[0]].weight, found[KEYS[0]].gradient) == (0.0, 0.0)


def test_weights_are_in_their_own_units() -> None:
    """Neither the scale nor the number of models has a say, but the accumulators do; the scale is the largest."""
    found = _merged(
        [Owned(KEYS[0], weight=1.0, gradient=3.0, scale=8.0)], [Owned(KEYS[0], weight=5.0, gradient=1.0)], []
    )[KEYS[0]]
    assert (found.weight, found.gradient, found.scale) == (2.0, 2.5, 8.0)


def test_of_nine_parents_the_least_useful_goes() -> None:
    """Votes first, then use, and parents before all others; the loser is counted."""
    parents = [Owned(key, parent=PARENT, weight=float(at + 1)) for at, key in enumerate(KEYS[:9])]
    heavy = Owned(KEYS[9], weight=1000.0)
    merged = merge([model_of(PLAIN, bucket) for bucket in ([*parents[:7], heavy], [parents[0], *parents[7:]])])
    assert {owned.key for owned in bucket_of_model(adopted_table(merged.model))} == {*KEYS[:9]} - {KEYS[1]}
    assert (merged.counts.evicted, merged.counts.parents_evicted) == (2, 1)


@pytest.mark.parametrize("turned", [False, True])
def test_of_equal_use_the_smaller_key_stays(*, turned: bool) -> None:
    """Whoever comes first, and however the keys stood in their buckets."""
    buckets = [[Owned(key) for key in KEYS[:6]], [Owned(key) for key in KEYS[4:10]]]
    if turned:
        buckets = [bucket[::-1] for bucket in buckets[::-1]]
    assert list(_merged(*buckets)) == sorted(KEYS[:10])[:8]


def test_no_key_comes_from_nowhere() -> None:
    """Those that are merged are those that there were."""
    buckets = [[Owned(key) for key in KEYS[:3]], [Owned(key) for key in KEYS[2:5]]]
    assert list(_merged(*buckets)) == sorted(KEYS[:5])


def test_degrees_that_clash() -> None:
    """The smallest holds; what only a base feature has comes from those that have it as one."""
    base = Owned(KEYS[0], 1, weight=1.0, linear_weight=3.0, linear_gradient=7.0)
    merged = merge([model_of(PLAIN, [Owned(KEYS[0], 2, weight=2.0)]), model_of(PLAIN, [base])])
    [found] = bucket_of_model(adopted_table(merged.model))
    assert (found.degree, found.weight, found.linear_weight, found.linear_gradient) == (1, 1.5, 3.0, 7.0)
    assert merged.counts.degree_clashes == 1


def test_new_parents_are_voted_on() -> None:
    """As many stay as models nominate in the mean: most votes, then most use; they are new no more."""

    def nominees(*numbers: int) -> list[Owned]:
        return [Owned(KEYS[at], parent=NEW_PARENT, weight=float(at + 1)) for at in numbers]

    models = [model_of(PLAIN, bucket) for bucket in (nominees(0, 1), nominees(0, 2), nominees(3, 4))]
    merged = merge(models)
    states = {owned.key: owned.parent for owned in bucket_of_model(adopted_table(merged.model))}
    assert states == {KEYS[0]: PARENT, KEYS[4]: PARENT, KEYS[1]: 0, KEYS[2]: 0, KEYS[3]: 0}
    assert (merged.counts.parents_won, merged.counts.parents_lost) == (2, 3)
    everybody = merge(models, parents="union")
    assert {owned.parent for owned in bucket_of_model(adopted_table(everybody.model))} == {PARENT}
    assert (everybody.counts.parents_won, everybody.counts.parents_lost) == (5, 0)


@pytest.mark.parametrize(("resting", "state"), [(1, PARENT), (2, PARENT), (3, 8)])
def test_parents_since_earlier_cease_by_votes(resting: int, state: int) -> None:
    """One that more models gave up than kept rests everywhere; with union it stays as long as one has kept it."""
    buckets = [[Owned(KEYS[0], parent=8)]] * resting + [[Owned(KEYS[0], parent=PARENT)]] * 2 + [[]]
    models = [model_of(PLAIN, bucket) for bucket in buckets]
    merged = merge(models)
    assert bucket_of_model(adopted_table(merged.model))[0].parent == state
    assert merged.counts.parents_retired == int(state != PARENT)
    assert bucket_of_model(adopted_table(merge(models, parents="union").model))[0].parent == PARENT
