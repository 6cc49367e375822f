"""Merging of models that learned from different examples, and the adoption of the merged model.

    merge   a function of the models alone, in their order, whatever they share and wherever it runs
    adopt   a model that was merged becomes the merged model, bit for bit; a model that was not is merged with it, each
            of the models in the merged one counting as much as itself

Merging is idempotent: equal models make the same model, and one model alone stays as it is, to the bit.

New parents are voted on (`parents = "votes"`): of the monomials that became parents since the last merge
(`Learner.end_epoch` with `nominate`) as many stay as the models have nominated on average, those of most votes first,
then those of most use, then the smaller key. All of them would be several times as many features, without more
benefit. A parent since earlier stays, unless more models had it cease to be one than kept it. `parents = "union"`
keeps every monomial that is a parent in any model, as Agarwal et al. 2014, section 3.2, have it.

Weights mean the same where examples are prepared alike: the same cuts of numbers, the same units of labels. Each model
makes its own of its first examples, so the first merge chooses: of the models that are prepared alike the most learned
ones are merged, and all who adopt that are prepared as they were, then on. What the others have learned before is
lost, once.

What belongs to the stream that a model has learned stays its own: its clock, progress, counts of examples, and its
latest examples.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.kernels.losses import loss_number
from stream_apple.core.learner.learner import Learner, is_of_preparation
from stream_apple.core.learner.merging.buckets import (
    COUNTED,
    Election,
    Nominees,
    find_nominees,
    merge_buckets,
    merge_constants,
)
from stream_apple.core.learner.merging.merge_scratch import MergeScratch, empty_merge_scratch
from stream_apple.core.learner.merging.mergeable import (
    Mergeable,
    check_alike,
    check_mergeable,
    check_startable,
    mergeable_of,
)
from stream_apple.core.learner.merging.stacks import (
    PORTION_SLOTS,
    Stack,
    copy_into,
    empty_stack,
    fill_stack,
    part_of,
    portions_of,
    settle_stack,
    stack_of,
)
from stream_apple.core.learner.merging.totals import merge_totals
from stream_apple.core.learner.new_model import decay_of, extent_of
from stream_apple.core.learner.options import BITS, Options
from stream_apple.core.learner.state.model import OCCUPIED, Decay
from stream_apple.core.learner.state.table import (
    BUCKET,
    NOMINATED,
    PARENT,
    Table,
    Words,
    copy_table,
    empty_table,
    taken_count,
    taken_places,
)

Parents = Literal["votes", "union"]
_A = TypeVar("_A")
_R = TypeVar("_R")


class MergeCounts(NamedTuple):
    """What a merge has done with monomials, as numbers of them.

    keys              distinct ones of all models
    kept              of them, those that have a slot of the merged model
    evicted           the others, parents included: more than eight met in a bucket
    parents_won       nominees that are parents from now on
    parents_lost      nominees that are not, for want of votes
    parents_retired   parents since earlier that ceased to be one in more models than they stayed
    parents_evicted   parents among the evicted
    degree_clashes    monomials that models have with different degrees: the smallest is kept
    models_dropped    models whose examples were prepared otherwise, of which nothing is in the merged one
    """

    keys: int
    kept: int
    evicted: int
    parents_won: int
    parents_lost: int
    parents_retired: int
    parents_evicted: int
    degree_clashes: int
    models_dropped: int = 0


class Merged(NamedTuple):
    """The merged model, and the counts of what became of monomials."""

    model: Mergeable
    counts: MergeCounts


class _Run(Protocol):
    """Makes calls, each with one of the arguments, one after the other or at once, and gives results in their order."""

    def __call__(self, call: Callable[[_A], _R], arguments: Iterable[_A], /) -> Iterable[_R]:
        """As `map` does."""
        ...


def merge(
    models: Sequence[Learner | Mergeable], *, parents: Parents = "votes", run: _Run = map, parts: int = 1
) -> Merged:
    """Return the merged model; the given ones do not change. One alone stays as it is, its nominees being parents.

    models   at least one, in an order that all who merge them agree on. ValueError unless their options are equal;
             ConfigurationError if models of these options can't be merged
    parents  which new parents stay, see above
    run      makes the calls that merge the `parts` of the table: to the same bits, however many
    """
    given = [each if isinstance(each, Mergeable) else mergeable_of(each) for each in models]
    check_alike([each.options for each in given])
    options = given[0].options
    check_mergeable(options)
    alike = _most_learned(given)
    dropped, given = len(given) - len(alike), alike
    if len(given) == 1:
        merged = _alone(given[0])
        return merged._replace(counts=merged.counts._replace(models_dropped=dropped))
    extent = extent_of(options)
    tables = [each.table for each in given]
    out = empty_table(int(options.bits or 0), extent)
    scratch = empty_merge_scratch(len(given), options.classes, extent.class_columns)
    chosen = _elected(given, scratch, run) if parents == "votes" else np.zeros(0, np.uint64)
    election, portions = Election(parents == "union", chosen), portions_of(out)

    def merge_some(some: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
        """Merge these portions, in memory of their own; what has been done with monomials."""
        counted, stack = np.zeros(COUNTED, np.int64), empty_stack(tables, portions[0][1] // BUCKET)
        own = empty_merge_scratch(len(given), options.classes, extent.class_columns)
        for start, stop in some:
            _settle(fill_stack(stack, tables, np.arange(start // BUCKET, stop // BUCKET)), given)
            merge_buckets(stack, part_of(out, start, stop), election, own, counted)
        return counted

    shares = [portions[at::parts] for at in range(min(parts, len(portions)))]
    counted = np.sum(list(run(merge_some, shares)), axis=0)
    last = len(out.slots) - 1
    merge_constants(stack_of(tables, np.array([last // BUCKET])), part_of(out, last, last + 1), scratch)
    sums = merge_totals([each.sums for each in given], loss_number(options.loss))
    sums |= {name: array.copy() for name, array in given[0].sums.items() if is_of_preparation(name)}
    return Merged(Mergeable(options, out, sums), MergeCounts(*counted.tolist())._replace(models_dropped=dropped))


def adopt(
    own: Learner, merged: Mergeable, *, included: bool, roster_size: int, parents: Parents = "votes"
) -> MergeCounts | None:
    """Replace a learner's mergeable part, in place, by the merged model.

    included     whether the learner's model was one of those merged: then its mergeable part is the merged model, bit
                 for bit. Else the merged model, taken `roster_size` times, is merged with its own first; unless
                 examples were prepared otherwise, when nothing of its own is kept
    roster_size  how many models were merged

    Returns the counts of that second merge, or None. ValueError for a model of other options.
    """
    check_alike([merged.options, own.options])
    counts = None
    if not included and _preparation_of(mergeable_of(own)) == _preparation_of(merged):
        merged, counts = merge([*[merged] * roster_size, own], parents=parents)
    copy_into(own.table, merged.table)
    own.take_over(merged.sums)
    own.sums["counts"][OCCUPIED] = taken_count(own.table)
    return counts


def start_of(learner: Learner) -> Mergeable:
    """Return what other models start from: a copy of the mergeable part, whose nominees are parents.

    ConfigurationError for options of models that others can't start from.
    """
    check_startable(learner.options)
    return _alone(mergeable_of(learner)).model


def warm_up_merging(options: Options) -> None:
    """Compile everything by merging two small models; size makes no difference."""
    small = Learner(replace(options, bits=BITS.low))
    small.table.slots["parent"][0] = PARENT | NOMINATED  # so that there is somebody to vote on
    merge([small, small])


def _alone(model: Mergeable) -> Merged:
    """Return a copy, to the bit, whose nominees are parents."""
    table = copy_table(model.table)
    won = table.slots["parent"] & NOMINATED != 0
    table.slots["parent"][won] &= ~NOMINATED
    taken, won_count = taken_count(table), int(np.count_nonzero(won))
    sums = {name: array.copy() for name, array in model.sums.items()}
    return Merged(Mergeable(model.options, table, sums), MergeCounts(taken, taken, 0, won_count, 0, 0, 0, 0))


def _most_learned(models: Sequence[Mergeable]) -> list[Mergeable]:
    """Return those models, in their order, that are prepared alike and have learned most together, by weight.

    Where two kinds have learned as much, that of the first model.
    """
    learned: dict[bytes, float] = {}
    kinds = [_preparation_of(each) for each in models]
    for kind, each in zip(kinds, models, strict=True):
        learned[kind] = learned.get(kind, 0.0) + float(each.sums["weight"].max())
    chosen = max(learned, key=learned.__getitem__)
    return [each for kind, each in zip(kinds, models, strict=True) if kind == chosen]


def _preparation_of(model: Mergeable) -> bytes:
    """Return what tells models apart whose examples are prepared in different ways."""
    arrays = sorted((name, array) for name, array in model.sums.items() if is_of_preparation(name))
    return b"".join(b"%b %d " % (name.encode(), array.size) + array.tobytes() for name, array in arrays)


def _settle(stack: Stack, models: Sequence[Mergeable]) -> None:
    """Let the weights in a stack of these models be what has become of them by decay."""
    rule = decay_of(models[0].options)
    if rule.active:
        settle_stack(stack, [Decay(each.sums["decay_scale"], each.sums["decay_drawn"]) for each in models], rule)


def _nominees_of(table: Table) -> NDArray[np.int64]:
    taken = taken_places(table)
    return np.compress(table.slots["parent"][taken] & NOMINATED != 0, taken)


def _elected(models: Sequence[Mergeable], scratch: MergeScratch, run: _Run) -> Words:
    """Return the keys of the nominees that become parents, ascending."""
    tables = [each.table for each in models]
    nominated = np.concatenate(list(run(_nominees_of, tables)))
    total = len(nominated)
    keys, votes, use = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    # Whole buckets, in which there are any: few, and no more at once than a portion of a table.
    buckets = np.unique(nominated // BUCKET)
    for at in range(0, len(buckets), PORTION_SLOTS // BUCKET):
        stack = stack_of(tables, buckets[at : at + PORTION_SLOTS // BUCKET])
        _settle(stack, models)
        found = Nominees(np.zeros(total, np.uint64), np.zeros(total, np.int64), np.zeros(total, np.float32))
        count = find_nominees(stack, scratch, found)
        keys.append(found.keys[:count])
        votes.append(found.votes[:count])
        use.append(found.use[:count])
    all_keys = np.concatenate(keys)
    seats = -(-total // len(models))
    order = np.lexsort((all_keys, -np.concatenate(use), -np.concatenate(votes)))
    return np.sort(all_keys[order[:seats]])
