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

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.learner import Learner, as_apple, is_of_preparation
from stream_apple.learners.apple.merging.buckets import (
    COUNTED,
    Election,
    Nominees,
    find_nominees,
    merge_buckets,
    merge_constants,
)
from stream_apple.learners.apple.merging.merge_scratch import MergeScratch, empty_merge_scratch
from stream_apple.learners.apple.merging.mergeable import mergeable_from, mergeable_of, table_of_rows
from stream_apple.learners.apple.merging.stack_reader import BlockReader, StackReader, stack_of_constants
from stream_apple.learners.apple.merging.stacks import Stack, copy_into
from stream_apple.learners.apple.merging.totals import Sums, merge_totals
from stream_apple.learners.apple.new_model import extent_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.model import OCCUPIED
from stream_apple.learners.apple.state.table import (
    BUCKET,
    NOMINATED,
    PARENT,
    Words,
    empty_table,
    taken_count,
)
from stream_apple.learners.merging_port import (
    Mergeable,
    MergeCounts,
    Merged,
    Parents,
    ReadableModel,
    Runner,
    check_alike,
    check_mergeable,
    check_startable,
)
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.state import block_bounds

__all__ = ["adopt", "merge", "mergeable_of", "start_of", "warm_up_merging", "warm_up_starting"]
"""What `merging_port.Merging` asks of a system."""

_NO_KEYS: Words = np.zeros(0, np.uint64)
_NO_BUCKETS: NDArray[np.int64] = np.zeros(0, np.int64)


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
    models: Sequence[Port | ReadableModel], *, parents: Parents = "votes", run: Runner = map, parts: int = 1
) -> Merged:
    """Return the merged model, see `Merging.merge`.

    In each part, one block of each model is read at a time, and what is taken in it is copied.
    """
    given = [mergeable_of(each) if isinstance(each, Learner) else cast("ReadableModel", each) for each in models]
    check_alike([each.options for each in given])
    check_mergeable(given[0].options)
    options = cast("Options", given[0].options)
    alike = _most_learned(given)
    dropped, given = len(given) - len(alike), alike
    if len(given) == 1:
        merged = _alone(given[0])
        return merged._replace(counts=merged.counts._replace(models_dropped=dropped))
    out = empty_table(int(options.bits or 0), extent_of(options))
    votes, blocks = parents == "votes", block_bounds(out.rows)

    def nominees_of(model: ReadableModel) -> NDArray[np.int64]:
        """Return the slots of its nominees, ascending."""
        reader = BlockReader(out)
        found = [reader.read(model, start, stop).nominees() + start * BUCKET for start, stop in blocks]
        return np.concatenate(found)

    nominated = np.concatenate(list(run(nominees_of, given))) if votes else _NO_BUCKETS
    # Buckets with nominees, which are few, wait for the election, which has to look at all blocks.
    waiting, buckets = np.unique(nominated // BUCKET), blocks[0][1]

    def merge_some(some: Sequence[tuple[int, int]]) -> _Part:
        """Merge these blocks, which follow one another, with scratch of their own."""
        first, end = np.searchsorted(waiting, np.array([some[0][0], some[-1][1]]))
        numbers, counted = waiting[first:end], np.zeros(COUNTED, np.int64)
        reader = StackReader(given, out, buckets, numbers)
        scratch, election = _scratch_for(options, len(given)), Election(not votes, _NO_KEYS)
        for start, stop in some:
            others = reader.read(start, stop)
            merge_buckets(reader.stack, others, out.part(start * BUCKET, stop * BUCKET), election, scratch, counted)
        return _Part(counted, numbers, reader.stack_aside)

    each = -(-len(blocks) // parts)
    done = list(run(merge_some, [blocks[at : at + each] for at in range(0, len(blocks), each)]))
    counted, scratch = np.sum([part.counted for part in done], axis=0), _scratch_for(options, len(given))
    election = Election(not votes, _elected(done, len(nominated), len(given), scratch))
    for part in done:
        merge_buckets(part.aside, part.numbers, out, election, scratch, counted)
    last = len(out.slots) - 1
    merge_constants(stack_of_constants(given), out.part(last, last + 1), scratch)
    sums: Sums = {name: array.copy() for name, array in given[0].sums.items() if is_of_preparation(name)}
    sums |= merge_totals([each.sums for each in given], options.objective)
    return Merged(mergeable_from(options, out, sums), MergeCounts(*counted.tolist())._replace(models_dropped=dropped))


def adopt(learner: Port, merged: Mergeable) -> None:
    """Replace a learner's mergeable part, in place, by the merged model, see `Merging.adopt`."""
    own = as_apple(learner)
    check_alike([merged.options, own.options])
    copy_into(own.table, table_of_rows(merged.state.rows))
    own.take_over(merged.sums)
    own.sums["occupancy"][OCCUPIED] = taken_count(own.table)


def start_of(learner: Port) -> Mergeable:
    """Return a copy of the mergeable part, from which other models can start, see `Merging.start_of`."""
    check_startable(learner.options)
    return _alone(mergeable_of(learner)).model


def warm_up_merging(options: LearnerOptions) -> None:
    """Compile everything by merging two small models, and adopting the result; size makes no difference."""
    small = Learner(cast("Options", options).smallest())
    # One nominee, so that there is a vote.
    small.table.slots["key"][0], small.table.slots["parent"][0] = 1, PARENT | NOMINATED
    small.table.tags[0] = 1
    adopt(small, merge([small, small]).model)


def warm_up_starting(options: LearnerOptions) -> None:
    """Compile what a start from another model calls."""
    small = Learner(cast("Options", options).smallest())
    adopt(small, start_of(small))


def _alone(model: ReadableModel) -> Merged:
    """Return a copy, to the bit, whose nominees are parents."""
    options = cast("Options", model.options)
    table = empty_table(int(options.bits or 0), extent_of(options))
    reader = BlockReader(table)
    for start, stop in block_bounds(table.rows):
        copy_into(table.part(start * BUCKET, stop * BUCKET), reader.read(model, start, stop))
    for name, array in table.constant.items():
        array[:] = model.sums[name]
    won = table.slots["parent"] & NOMINATED != 0
    table.slots["parent"][won] &= ~NOMINATED
    taken, won_count = taken_count(table), int(np.count_nonzero(won))
    sums = {name: array.copy() for name, array in model.sums.items()}
    return Merged(mergeable_from(options, table, sums), MergeCounts(taken, taken, 0, won_count, 0, 0, 0, 0))


def _most_learned(models: Sequence[ReadableModel]) -> list[ReadableModel]:
    """Return the group of models, in their order, that are prepared alike and have learned most together, by weight.

    If two groups have learned as much, it is the one whose first model comes first.
    """
    learned: dict[bytes, float] = {}
    kinds = [_preparation_of(each) for each in models]
    for kind, each in zip(kinds, models, strict=True):
        learned[kind] = learned.get(kind, 0.0) + float(each.sums["weight"].max())
    chosen = max(learned, key=learned.__getitem__)
    return [each for kind, each in zip(kinds, models, strict=True) if kind == chosen]


def _preparation_of(model: ReadableModel) -> bytes:
    """Return bytes that are equal for two models if and only if their examples are prepared alike."""
    arrays = sorted((name, array) for name, array in model.sums.items() if is_of_preparation(name))
    return b"".join(b"%b %d " % (name.encode(), array.size) + array.tobytes() for name, array in arrays)


def _scratch_for(options: Options, models: int) -> MergeScratch:
    return empty_merge_scratch(models, options.classes, extent_of(options).class_columns)


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
