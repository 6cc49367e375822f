"""Whole models are merged: what stays the same, who adopts what, and which models can't be merged."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from learners.apple.merging.streams import KINDS, adopted_table, continued, examples, kinds, learned, merged_digests
from support.bare_options import bare
from support.restoring import restored
from support.source_files import ROOT

from stream_apple.core.batch import Batch
from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.kernels.mixture import FIRST_SHARES
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging import buckets, stacks
from stream_apple.learners.apple.merging.merge import adopt, merge, warm_up_merging
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.model import OCCUPIED
from stream_apple.learners.apple.state.table import NOMINATED, PARENT, SIDES
from stream_apple.learners.merging_port import Mergeable, check_mergeable
from stream_apple.learners.scores import Scores


def _content(model: Mergeable) -> dict[int, list[Any]]:
    """Key -> all that its monomial has, whatever the slot; the constant has the key 0."""
    table, found = adopted_table(model), {}
    for place in [*np.flatnonzero(table.slots["key"][:-1]).tolist(), len(table.slots) - 1]:
        row = [table.slots[place].tobytes()]
        if len(table.companions) and table.slots[place]["degree"] <= 1:
            row.append(table.companions[place].tobytes())
        row += [side[place].tobytes() for name in SIDES if len(side := getattr(table, name))]
        found[int(table.slots[place]["key"])] = row
    return found


@kinds
def test_identical_models_are_one(kind: dict[str, Any]) -> None:
    """In every field of every slot and every sum: nothing is counted for as often as there are models."""
    learner = learned(bare(bits=10, **kind), 1, nominate=False)
    for count in (2, 3, 7):
        merged = merge([learner] * count).model
        assert _content(merged) == _content(mergeable_of(learner))
        own = mergeable_of(learner).sums
        assert {name: array.tobytes() for name, array in merged.sums.items()} == {
            name: array.tobytes() for name, array in own.items()
        }


@kinds
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_parts_at_once(kind: dict[str, Any], parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads merge a table, the bits and the counts are those of one."""
    monkeypatch.setattr("stream_apple.learners.state.BLOCK_BYTES", 4_000)  # 8 buckets
    models = [learned(bare(bits=10, **kind), seed) for seed in range(3)]
    alone = merge(models)
    with ThreadPoolExecutor(3) as pool:
        together = merge(models, run=pool.map, parts=parts)
    assert together.counts == alone.counts
    assert together.model.digest() == alone.model.digest()


@kinds
def test_one_model_alone_stays_as_it_is(kind: dict[str, Any]) -> None:
    """To the bit, wherever it stands in its epoch: merging by itself is not to merge."""
    options = bare(bits=9, **kind)
    merged_each, off = learned(options, 2, epochs=0), learned(options, 2, epochs=0)
    for epoch in range(3):
        continued(merged_each, 2, (epoch, epoch + 1))
        continued(off, 2, (epoch, epoch + 1), nominate=False)
        adopt(merged_each, merge([merged_each]).model)
        assert merged_each.digest() == off.digest()
    off.learn(examples(options, 2), 300, 350, Scores.empty(400))  # in the midst of an epoch
    before = off.digest()
    alone = merge([off])
    assert alone.counts.kept == alone.counts.keys == off.occupied
    adopt(off, alone.model)
    assert off.digest() == before


@kinds
def test_who_was_included_has_the_merged_model(kind: dict[str, Any]) -> None:
    """Bit for bit, what of it belongs to the stream apart; it learns on, and so does one that is restored."""
    options = bare(bits=9, **kind)
    learners = [learned(options, seed) for seed in range(3)]
    before = [learner.digest() for learner in learners]
    own = [{name: array.copy() for name, array in learner.sums.items()} for learner in learners]
    merged = merge(learners)
    assert [learner.digest() for learner in learners] == before
    for learner, sums in zip(learners, own, strict=True):
        adopt(learner, merged.model)
        assert mergeable_of(learner).digest() == merged.model.digest()
        assert learner.occupied == merged.counts.kept
        for name, array in learner.sums.items():
            if name not in merged.model.state.sums:
                if merged.counts.models_dropped and name.startswith("recent_"):
                    continue  # the latest examples were prepared otherwise
                changed = array != sums[name]
                assert (
                    not changed[np.arange(len(array)) != OCCUPIED].any() if name == "occupancy" else not changed.any()
                )
    again = merge(learners).model
    assert _content(again) == _content(merged.model)
    assert again.digest() == merged.model.digest() or merged.counts.models_dropped
    assert not (learners[0].table.slots["parent"] & NOMINATED & 127).any()
    continued(learners[0], 3, (0, 1))
    other = restored(learners[0])
    for learner in (learners[0], other):
        continued(learner, 3, (1, 3))
    assert other.digest() == learners[0].digest()


def _of_its_own(seed: int, size: int) -> Batch:
    """Three numbers and an amount, in units that no other seed has."""
    cells = np.random.default_rng(seed).normal(seed, 1 + seed, (size, 3)).astype(np.float32)
    labels = 1000.0 * (seed + 1) + 50.0 * (cells[:, 0] - cells[:, 1])
    keys = np.tile(np.arange(1, 4, dtype=np.uint64), size)
    return Batch(np.arange(0, 3 * size + 1, 3), keys, cells.ravel(), labels.astype(np.float64), np.ones(size))


def _prepared_by_itself(seed: int, size: int) -> Learner:
    """A learner whose numbers are cut, and whose labels have units, by examples of its own."""
    learner = Learner(Options(mergeable=True, bits=10))
    learner.learn(_of_its_own(seed, size), 0, size, Scores.empty(size))
    learner.end_epoch(nominate=True)
    return learner


def test_those_prepared_alike_who_have_learned_most_are_merged() -> None:
    """Others count for nothing, and learn on with cuts, units and weights of the merged model, as one restored does."""
    learners = [_prepared_by_itself(seed, size) for seed, size in ((0, 150), (1, 250), (2, 200))]
    merged = merge(learners)
    assert merged.counts.models_dropped == 2
    assert merged.model.digest() == merge(learners[1:2]).model.digest()
    for learner in learners:
        adopt(learner, merged.model)
        assert mergeable_of(learner).digest() == merged.model.digest()
    assert [learner.units.scale for learner in learners] == [learners[1].units.scale] * 3
    assert learners[0].sums["recent_counts"].tolist() == [0, 0]
    batch = _of_its_own(1, 100)
    other = restored(learners[0])
    for learner in (*learners, other):
        learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
    assert other.digest() == learners[0].digest()
    together = merge(learners)
    assert together.counts.models_dropped == 0
    newcomer = _prepared_by_itself(5, 240)
    assert merge([newcomer, *learners]).model.digest() == together.model.digest()  # together they have learned more
    adopt(newcomer, together.model)
    assert mergeable_of(newcomer).digest() == together.model.digest()


def test_the_order_of_models_is_rounding() -> None:
    """Who is first has no say."""
    options = bare(bits=10)
    learners = [learned(options, seed) for seed in range(4)]
    ahead, back = (merge(order).model for order in (learners, learners[::-1]))
    tables = adopted_table(ahead), adopted_table(back)
    assert tables[0].slots["key"].tolist() == tables[1].slots["key"].tolist()
    for name in ("weight", "gradient", "scale", "average", "degree", "parent", "sights"):
        assert np.allclose(tables[0].slots[name], tables[1].slots[name], rtol=1e-5, atol=1e-12), name
    for name, array in ahead.sums.items():
        assert np.allclose(array, back.sums[name], rtol=1e-9, atol=1e-12), name


def test_whoever_adopts_it_has_nothing_of_its_own_left() -> None:
    """Also a model that was not among those that were merged."""
    options = bare(bits=10, mixture=False)
    merged = merge([learned(options, seed, nominate=False) for seed in range(3)]).model
    for late in (learned(options, 9, nominate=False), Learner(options)):
        adopt(late, merged)
        assert mergeable_of(late).digest() == merged.digest()


def test_who_has_learned_nothing_has_no_say() -> None:
    """In the table, the totals and the mixture."""
    options = bare(bits=10)
    learner = learned(options, 1, nominate=False)
    merged = merge([learner, Learner(options)]).model
    assert _content(merged) == _content(mergeable_of(learner))
    for name in ("norm", "weight", "labels", "shares", "heaviest"):
        assert np.allclose(merged.sums[name], learner.sums[name], rtol=1e-12), name
    score = {name: Learner(options) for name in ("own", "merged")}
    adopt(score["own"], merge([learner]).model)
    adopt(score["merged"], merged)
    own, other = (each.predict(examples(options, 5)) for each in score.values())
    assert np.abs(own - other).max() < 0.1


def test_totals() -> None:
    """N and W are averaged by W, ranges are the widest, and the stack is where the sum of squared misses is least."""
    options = bare(bits=8)
    models = []
    for weight, at, curvature in ((1.0, 0.0, 3.0), (3.0, 1.0, 1.0)):
        learner = Learner(options)
        sums: Any = learner.sums
        sums["weight"][:], sums["norm"][:] = weight, 10.0 * weight + at
        sums["labels"][:] = [-at, weight]
        sums["stack"][:] = at
        sums["curvature"][::7] = curvature * 1e12
        sums["shares"][:] = [0.25, 0.25, 0.5] if at else FIRST_SHARES
        sums["heaviest"][0] = 1.0 + at
        models.append(mergeable_of(learner))
    merged: Any = merge(models).model.sums
    assert merged["weight"].tolist() == [2.5, 2.5]
    assert merged["norm"].tolist() == [(10.0 + 3 * 31.0) / 4] * 2
    assert merged["labels"].tolist() == [-1.0, 3.0]
    assert np.allclose(merged["stack"], 0.25)
    assert np.allclose(merged["curvature"][::7], 1.5e12)
    assert merged["heaviest"].tolist() == [2.0]
    # The first ones are FIRST_SHARES in any unit; by the logarithm, three quarters of the way to the others.
    expected = np.array(FIRST_SHARES) ** 0.25 * np.array([0.25, 0.25, 0.5]) ** 0.75
    assert np.allclose(merged["shares"], expected / expected.sum())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (bare(mergeable=False), "mergeable = true"),
        (bare(loss="logistic", mixture=False, steps="theorem1", theorem1_lambda=0.1), "steps = adaptive"),
    ],
)
def test_what_can_not_be_merged_is_refused(options: Options, said: str) -> None:
    """What such models have learned means something different in each."""
    with pytest.raises(ConfigurationError, match=said):
        check_mergeable(options)
    with pytest.raises(ConfigurationError, match=said):
        merge([Learner(options)])


def test_models_of_other_options_are_refused() -> None:
    """The message says which option differs, and where."""
    with pytest.raises(ValueError, match=r"the first \(bits 8\), found bits 9 in number 3"):
        merge([Learner(bare(bits=bits)) for bits in (8, 8, 9)])
    with pytest.raises(ValueError, match="loss"):
        adopt(
            Learner(bare(bits=8)), mergeable_of(Learner(bare(bits=8, loss="logistic"))))  # fmt: skip
    with pytest.raises(ValueError, match="at least one"):
        merge([])


def test_nominees_are_parents() -> None:
    """To all but the merge: a model that nominates learns and grows as one that does not."""
    options = bare(bits=10)
    nominating, plain = (learned(options, 3, nominate=nominate) for nominate in (True, False))
    states = nominating.table.slots["parent"]
    assert np.unique(states[states & PARENT != 0]).tolist() == [PARENT | NOMINATED]
    states[states & PARENT != 0] = PARENT
    assert nominating.digest() == plain.digest()


def test_interpreted_kernels_merge_to_the_same_bits() -> None:
    """Without the compiler too."""
    code = "from learners.apple.merging.streams import merged_digests; print(*merged_digests())"
    tests = ROOT / "tests"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],  # interpreted, hashing overflows aloud
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tests}", "NUMBA_DISABLE_JIT": "1"},
        cwd=tests,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == merged_digests()


@pytest.mark.parametrize("kind", KINDS[:6:2])
def test_after_warming_up_nothing_is_compiled(kind: dict[str, Any]) -> None:
    """A first merge takes as long as any other."""
    kernels: list[Any] = [buckets.merge_buckets, buckets.merge_constants, buckets.find_nominees]
    kernels += [stacks.gather_taken, stacks._copy_taken]
    options = bare(bits=9, **kind)
    warm_up_merging(options)
    before = [len(kernel.signatures) for kernel in kernels]
    assert min(before) > 0
    models = [learned(options, seed, epochs=1) for seed in range(2)]
    adopt(models[0], merge(models).model)
    assert [len(kernel.signatures) for kernel in kernels] == before
