"""What merging makes of one bucket, in plain Python floats, to be compared bit for bit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.merging_port import Mergeable

BUCKET_NUMBER = 3
MOST = float(np.finfo(np.float32).max)
PARENT, NEW_PARENT = 1, 65
EXPANDED, COMPANIONS = ("average", "fast"), ("linear_weight", "linear_gradient", "slow_linear")


def key_in_bucket(number: int) -> int:
    """Keys of one bucket, of any table of 2^8 slots, in an order that is not theirs."""
    return (number * 7919 % 1009 + 1) << 13 | BUCKET_NUMBER << 8 | (number * 37 & 0xFF)


@dataclass
class Owned:
    """A slot: its fields by name, those of its companion too."""

    key: int
    degree: int = 2
    parent: int = 0
    weight: float = 0.0
    gradient: float = 1.0
    scale: float = 1.0
    sights: int = 1
    average: float = 0.0
    fast: float = 0.0
    linear_weight: float = 0.0
    linear_gradient: float = 1.0
    slow_linear: float = 0.0


@dataclass
class Outcome:
    """What a bucket becomes, and what was counted."""

    slots: list[Owned]
    counts: dict[str, int]


def model_of(options: Options, bucket: Sequence[Owned]) -> Mergeable:
    """A model whose table has this bucket, its slots in this order, and nothing else."""
    learner = Learner(options)
    table = learner.table
    for at, owned in enumerate(bucket):
        place = 8 * BUCKET_NUMBER + at
        slot = table.slots[place]
        for name in ("key", "degree", "parent", "weight", "gradient", "scale", "sights", *EXPANDED):
            slot[name] = getattr(owned, name)
        if owned.degree <= 1:
            table.companions[place] = tuple(getattr(owned, name) for name in COMPANIONS)
        table.tags.view(np.uint8)[place] = owned.key & 0xFF | 1
    return mergeable_of(learner)


def bucket_of_model(table: Table) -> list[Owned]:
    """The other way round; what stands anywhere else is found by the caller's count."""
    found = []
    for place in range(8 * BUCKET_NUMBER, 8 * BUCKET_NUMBER + 8):
        slot = table.slots[place]
        if slot["key"]:
            owned = Owned(*(slot[name].item() for name in ("key", "degree", "parent", "weight", "gradient", "scale")))
            owned.sights = int(slot["sights"])
            for name in EXPANDED:
                setattr(owned, name, float(slot[name]))
            for name in COMPANIONS:
                setattr(owned, name, float(table.companions[place][name]))
            found.append(owned)
    return found


def merged_bucket(models: Sequence[Sequence[Owned]], *, union: bool) -> Outcome:
    """The bucket that these of several models become, at least two."""
    keys = sorted({owned.key for bucket in models for owned in bucket})
    having = {key: [owned for bucket in models for owned in bucket if owned.key == key] for key in keys}
    merged = {key: _merged_monomial(having[key]) for key in keys}
    counts = dict.fromkeys(("won", "lost", "retired", "parents_evicted"), 0)
    counts["keys"] = len(keys)
    counts["clashes"] = sum(len({owned.degree for owned in owners}) > 1 for owners in having.values())
    nominees = []
    for key, owners in having.items():
        states = [owned.parent for owned in owners]
        if PARENT not in states and NEW_PARENT in states:
            nominees.append((-states.count(NEW_PARENT), -_use(merged[key]), key))
    total = sum(owned.parent == NEW_PARENT for bucket in models for owned in bucket)
    seats = (total + len(models) - 1) // len(models)
    chosen = {key for _, _, key in (nominees if union else sorted(nominees)[:seats])}
    votes = dict.fromkeys(keys, 0)
    for key, owners in having.items():
        states = [owned.parent for owned in owners]
        parents = states.count(PARENT) + states.count(NEW_PARENT)
        others = [state for state in states if state not in {PARENT, NEW_PARENT}]
        resting = sum(state > 0 for state in others)
        state = max(others, default=0)
        if PARENT in states:
            if union or parents >= resting:
                state = PARENT
            else:
                counts["retired"] += 1
        elif NEW_PARENT in states:
            counts["won" if key in chosen else "lost"] += 1
            state = PARENT if key in chosen else state
        merged[key].parent = state
        votes[key] = parents if state == PARENT else 0
    ranked = sorted(keys, key=lambda key: (-votes[key], -_use(merged[key]), key))
    counts["kept"] = len(ranked[:8])
    counts["parents_evicted"] = sum(merged[key].parent == PARENT for key in ranked[8:])
    return Outcome([merged[key] for key in sorted(ranked[:8])], counts)


def _merged_monomial(owners: Sequence[Owned]) -> Owned:
    degree = min(owned.degree for owned in owners)
    g = [min(owned.gradient, MOST) for owned in owners]
    merged = Owned(owners[0].key, degree, scale=max(owned.scale for owned in owners))
    merged.sights = max(owned.sights for owned in owners)
    merged.weight, merged.gradient = _mean([owned.weight for owned in owners], g), _mean(g, g)
    for name in EXPANDED:
        setattr(merged, name, _mean([getattr(owned, name) for owned in owners], g))
    merged.linear_gradient = 0.0
    if degree <= 1:
        linear = [owned for owned in owners if owned.degree <= 1]
        g = [min(owned.linear_gradient, MOST) for owned in linear]
        merged.linear_gradient = _mean(g, g)
        for name in ("linear_weight", "slow_linear"):
            setattr(merged, name, _mean([getattr(owned, name) for owned in linear], g))
    return merged


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = weighted = 0.0
    for value, weight in zip(values, weights, strict=True):
        total += weight
        weighted += weight * value
    return float(np.float32(weighted / total)) if total > 0.0 else 0.0


def _use(owned: Owned) -> float:
    second = owned.linear_weight if owned.degree <= 1 else owned.average
    return float(np.float32(max(abs(owned.weight), abs(second))) * np.float32(owned.scale))
