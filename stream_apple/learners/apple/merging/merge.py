"""Merging of models that learned from different examples, and the adoption of the merged model.

    merge   returns the merged model, a function of the given models and their order alone
    adopt   replaces a model by the merged one, bit for bit, if it was among those merged; otherwise the two are merged,
            where each of the models in the merged one counts as much as the adopting model

Merging is idempotent: equal models make the same model, and one model alone stays as it is, to the bit.

New parents are voted on (`parents = "votes"`). Of the monomials that became parents since the last merge
(`Learner.end_epoch` with `nominate`), as many stay as the models have nominated on average: those of most votes first,
then those of most use, then the smaller key. Keeping all of them would mean several times as many features, without
more benefit. An earlier parent stays, unless it retired in more models than kept it. `parents = "union"` keeps every
monomial that is a parent in any model, as Agarwal et al. 2014, section 3.2, do.

Weights mean the same only if examples are prepared alike: with the same cuts of numbers, and the same units of labels.
Each model derives both from its first examples, so the first merge has to choose. The models are grouped by their
preparation, the group that has learned most is merged, and all models that adopt the result are prepared like that
group from then on. What the other models had learned before is lost, once.

What belongs to the stream that a model has learned stays its own: its clock, progress, counts of examples, and its
latest examples.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.learner import Learner, as_apple, as_options, is_of_preparation
from stream_apple.learners.apple.merging.buckets import (
    COUNTED,
    Election,
    Nominees,
    find_nominees,
    merge_buckets,
    merge_constants,
)
from stream_apple.learners.apple.merging.merge_scratch import MergeScratch, empty_merge_scratch
from stream_apple.learners.apple.merging.mergeable import (
    Mergeable,
    ReadableModel,
    check_alike,
    check_mergeable,
    check_startable,
    mergeable_of,
    readable_of,
)
from stream_apple.learners.apple.merging.stack_reader import StackReader
from stream_apple.learners.apple.merging.stacks import Stack, copy_into
from stream_apple.learners.apple.merging.totals import Sums, merge_totals
from stream_apple.learners.apple.new_model import extent_of
from stream_apple.learners.apple.state.model import OCCUPIED
from stream_apple.learners.apple.state.table import (
    BUCKET,
    NOMINATED,
    PARENT,
    Words,
    blocks_of,
    empty_table,
    taken_count,
)
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.port import LearnerOptions

Parents = Literal["votes", "union"]
_NO_KEYS: Words = np.zeros(0, np.uint64)
_NO_BUCKETS: NDArray[np.int64] = np.zeros(0, np.int64)
_Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each argument, one after the other or at once; yields the results in their order, as `map`."""


class MergeCounts(NamedTuple):
    """How many monomials had which fate in a merge.

    keys              distinct monomials of all models
    kept              those of them that have a slot in the merged model
    evicted           the others, parents included: more than eight met in a bucket
    parents_won       nominees that became parents
    parents_lost      nominees that did not, for lack of votes
    parents_retired   earlier parents that retired in more models than kept them
    parents_evicted   parents among the evicted
    degree_clashes    monomials whose degrees differ between models: the smallest is kept
    models_dropped    how many models were left out, as their examples were prepared otherwise
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
    """The merged model, and the fates of monomials."""

    model: Mergeable
    counts: MergeCounts


class _Part(NamedTuple):
    """What was merged of some blocks.

    counted  int64[COUNTED]  the numbers of MergeCounts
    numbers  int64[k]        the buckets that wait for the election
    aside    those buckets
    """

    counted: NDArray[np.int64]
    numbers: NDArray[np.int64]
    aside: Stack


def merge(
    models: Sequence[Port | Mergeable | ReadableModel],
    *,
    parents: Parents = "votes",
    run: _Run = map,
    parts: int = 1,
) -> Merged:
    """Return the merged model; the given models do not change.

    models   at least one, in an order on which all processes that merge them agree; of one model alone a copy is
             returned, whose nominees are parents
    parents  which new parents stay, see above
    run      calls the function that merges a part of the table
    parts    into how many parts the table is divided; the result does not depend on it

    In each part, what is taken in one block of each model is copied at a time, and one block is decoded. ValueError
    unless the models' options are equal; ConfigurationError if models of these options can't be merged.
    """
    given = [each if isinstance(each, ReadableModel) else readable_of(each) for each in models]
    check_alike([each.options for each in given])
    options = given[0].options
    check_mergeable(options)
    alike = _most_learned(given)
    dropped, given = len(given) - len(alike), alike
    if len(given) == 1:
        merged = _alone(given[0])
        return merged._replace(counts=merged.counts._replace(models_dropped=dropped))
    out = empty_table(int(options.bits or 0), extent_of(options))
    votes = parents == "votes"
    nominated = np.concatenate(list(run(lambda model: model.table.nominees(), given))) if votes else _NO_BUCKETS
    # Buckets with nominees, which are few, wait for the election, which has to look at all blocks.
    waiting, blocks = np.unique(nominated // BUCKET), blocks_of(out)
    buckets, slots = blocks[0][1] // BUCKET, max(model.table.most_taken() for model in given)

    def merge_some(some: Sequence[tuple[int, int]]) -> _Part:
        """Merge these blocks, which follow one another, with scratch of their own."""
        first, end = np.searchsorted(waiting, np.array([some[0][0], some[-1][1]]) // BUCKET)
        numbers, counted = waiting[first:end], np.zeros(COUNTED, np.int64)
        reader = StackReader(given, buckets, slots, numbers)
        scratch, election = _scratch_for(given), Election(not votes, _NO_KEYS)
        for start, stop in some:
            others = reader.read(start, stop)
            merge_buckets(reader.stack, others, out.part(start, stop), election, scratch, counted)
        return _Part(counted, numbers, reader.stack_aside)

    each = -(-len(blocks) // parts)
    done = list(run(merge_some, [blocks[at : at + each] for at in range(0, len(blocks), each)]))
    counted, scratch = np.sum([part.counted for part in done], axis=0), _scratch_for(given)
    election = Election(not votes, _elected(done, len(nominated), len(given), scratch))
    for part in done:
        merge_buckets(part.aside, part.numbers, out, election, scratch, counted)
    last = len(out.slots) - 1
    constants = StackReader(given, 1, 1, _NO_BUCKETS)
    constants.read(last, last + 1)
    merge_constants(constants.stack, out.part(last, last + 1), scratch)
    sums = merge_totals([each.sums for each in given], options.objective)
    sums |= {name: array.copy() for name, array in given[0].sums.items() if is_of_preparation(name)}
    return Merged(Mergeable(options, out, sums), MergeCounts(*counted.tolist())._replace(models_dropped=dropped))


def adopt(
    learner: Port, merged: Mergeable, *, included: bool, roster_size: int, parents: Parents = "votes"
) -> MergeCounts | None:
    """Replace a learner's mergeable part, in place, by the merged model.

    included     whether the learner's model was among those merged; then its mergeable part becomes the merged model,
                 bit for bit. If not, its own model is merged with `roster_size` times the merged model first; but if
                 its examples were prepared otherwise, nothing of its own is kept
    roster_size  how many models were merged

    Returns the counts of that second merge, or None. ValueError for a model of other options.
    """
    own = as_apple(learner)
    check_alike([merged.options, own.options])
    counts = None
    if not included and _preparation_of(mergeable_of(own).sums) == _preparation_of(merged.sums):
        merged, counts = merge([*[merged] * roster_size, own], parents=parents)
    copy_into(own.table, merged.table)
    own.take_over(merged.sums)
    own.sums["occupancy"][OCCUPIED] = taken_count(own.table)
    return counts


def start_of(learner: Port) -> Mergeable:
    """Return a copy of the mergeable part, from which other models can start; its nominees are parents.

    ConfigurationError if models of these options can't be started from.
    """
    check_startable(learner.options)
    return _alone(readable_of(learner)).model


def warm_up_merging(options: LearnerOptions) -> None:
    """Compile everything by merging two small models, and adopting the result; size makes no difference."""
    small = Learner(as_options(options).smallest())
    # One nominee, so that there is a vote.
    small.table.slots["key"][0], small.table.slots["parent"][0] = 1, PARENT | NOMINATED
    small.table.tags[0] = 1
    adopt(small, merge([small, small]).model, included=True, roster_size=2)


def warm_up_starting(options: LearnerOptions) -> None:
    """Compile what a start from another model calls."""
    small = Learner(as_options(options).smallest())
    adopt(small, start_of(small), included=True, roster_size=1)


def _alone(model: ReadableModel) -> Merged:
    """Return a copy, to the bit, whose nominees are parents."""
    table = model.table.copy()
    won = table.slots["parent"] & NOMINATED != 0
    table.slots["parent"][won] &= ~NOMINATED
    taken, won_count = taken_count(table), int(np.count_nonzero(won))
    sums = {name: array.copy() for name, array in model.sums.items()}
    return Merged(Mergeable(model.options, table, sums), MergeCounts(taken, taken, 0, won_count, 0, 0, 0, 0))


def _most_learned(models: Sequence[ReadableModel]) -> list[ReadableModel]:
    """Return the group of models, in their order, that are prepared alike and have learned most together, by weight.

    If two groups have learned as much, it is the one whose first model comes first.
    """
    learned: dict[bytes, float] = {}
    kinds = [_preparation_of(each.sums) for each in models]
    for kind, each in zip(kinds, models, strict=True):
        learned[kind] = learned.get(kind, 0.0) + float(each.sums["weight"].max())
    chosen = max(learned, key=learned.__getitem__)
    return [each for kind, each in zip(kinds, models, strict=True) if kind == chosen]


def _preparation_of(sums: Sums) -> bytes:
    """Return bytes that are equal for the sums of two models if and only if their examples are prepared alike."""
    arrays = sorted((name, array) for name, array in sums.items() if is_of_preparation(name))
    return b"".join(b"%b %d " % (name.encode(), array.size) + array.tobytes() for name, array in arrays)


def _scratch_for(models: Sequence[ReadableModel]) -> MergeScratch:
    options = models[0].options
    return empty_merge_scratch(len(models), options.classes, extent_of(options).class_columns)


def _elected(parts: Sequence[_Part], nominations: int, models: int, scratch: MergeScratch) -> Words:
    """Return the keys of the nominees that become parents, ascending."""
    keys, votes, use = [_NO_KEYS], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for part in parts:
        found = Nominees(
            np.zeros(nominations, np.uint64), np.zeros(nominations, np.int64), np.zeros(nominations, np.float32)
        )
        count = find_nominees(part.aside, len(part.numbers), scratch, found)
        keys.append(found.keys[:count])
        votes.append(found.votes[:count])
        use.append(found.use[:count])
    all_keys = np.concatenate(keys)
    order = np.lexsort((all_keys, -np.concatenate(use), -np.concatenate(votes)))
    return np.sort(all_keys[order[: -(-nominations // models)]])
