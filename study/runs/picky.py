"""The picky baselines: a product is tested on examples before it becomes a feature.

Agarwal et al. 2014 name two in section 3.2, after Sanger, Sutton and Matheus 1991 ("Iterative Construction of Sparse
Polynomial Approximations"): one proposes monomials by the statistic of that paper, E[r^2 m^2] / E[m^2], the other by
weight. As with apple, a proposed monomial is one whose products may be of use; but only those of its products become
features that pass a test. `docs/study.md` describes what Agarwal et al. leave open.
"""

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import warm_up_learning
from stream_apple.offline.evaluation import Learned, Run, run_of, split
from stream_apple.offline.schedule import Schedule, epoch_ends
from study.methods import Proposal
from study.runs.monomials import (
    AdmittedProduct,
    CandidateEntries,
    Entries,
    as_batch,
    base_entries,
    candidate_entries,
    expanded,
)
from study.runs.product_test import Residuals, judge


class PickyRun(NamedTuple):
    """What a pass showed.

    products  the monomials that became features, by key, in this order
    parents   how many monomials were proposed, for their products to be tested
    tested    the mean number of products of a training example that were tested, besides its features
    """

    run: Run
    products: dict[int, AdmittedProduct]
    parents: int
    tested: float


def evaluate_picky(batch: Batch, options: Options, schedule: Schedule, proposal: Proposal) -> PickyRun:
    """Learn the first part of the batch in one pass, then score the rest.

    In an epoch, the first half ranks the features, and proposes the best floor(s^alpha); the second half tests their
    products on the residuals of scores before learning, so that no example both proposes and tests. The last epoch
    does neither. All examples are learned.

    options  of the learner, with the method linear: to it, products are features like any other
    """
    trained, tested = split(batch, schedule)
    learner, scores = Learner(options), Scores.empty(len(trained.labels))
    warm_up_learning(options)
    started = time.perf_counter()
    pupil = _Picky(learner, proposal, options.alpha)
    ends = epoch_ends(len(trained.labels), schedule)
    for start, stop in itertools.pairwise([0, *ends]):
        if stop == ends[-1]:
            pupil.learn(trained, start, stop, scores)
            break
        middle = (start + stop) // 2
        parents = pupil.propose(pupil.learn(trained, start, middle, scores))
        pupil.admit(parents, pupil.learn(trained, middle, stop, scores))
    test_scores = learner.score(as_batch(expanded(base_entries(tested), pupil.products), tested.labels, tested.weights))
    seconds = time.perf_counter() - started
    learned = Learned(learner.progress, learner.features_per_example, len(pupil.parents), seconds)
    run = run_of(options, learned, (trained, scores), (tested, test_scores))
    return PickyRun(run, pupil.products, len(pupil.parents), pupil.tested / len(trained.labels))


class _Stretch(NamedTuple):
    """Examples that were learned, with their residuals before learning, float64[n], and importance weights."""

    base: Entries
    features: Entries
    residuals: NDArray[np.float64]
    weights: NDArray[np.float64]


class _Picky:
    """The features that are learned, and the proposals and tests that add to them.

    products  the products that became features
    parents   all monomials that were proposed; none is proposed twice
    tested    how many values of products were tested and not learned
    """

    def __init__(self, learner: Learner, proposal: Proposal, alpha: float) -> None:
        self.products: dict[int, AdmittedProduct] = {}
        self.parents: list[int] = []
        self.tested = 0
        self._learner = learner
        self._proposal = proposal
        self._alpha = alpha
        self._members: dict[int, frozenset[int]] = {}
        self._nonzeros = 0

    def learn(self, trained: Batch, start: int, stop: int, scores: Scores) -> _Stretch:
        """Learn rows [start, stop) of the training examples, and write their scores."""
        rows = trained.select(np.arange(start, stop))
        base = base_entries(rows)
        features = expanded(base, self.products)
        written = Scores._make(column[start:stop] for column in scores)
        self._learner.learn(as_batch(features, rows.labels, rows.weights), 0, stop - start, written)
        self._nonzeros += len(base.rows)
        residuals = rows.labels - written.predictions
        if self._learner.options.loss == "logistic":
            residuals = rows.labels / (1.0 + np.exp(rows.labels * written.predictions))
        return _Stretch(base, features, residuals, rows.weights)

    def propose(self, stretch: _Stretch) -> list[int]:
        """Return the floor(s^alpha) best monomials that were never proposed, as features of the stretch rank them."""
        keys, places = np.unique(stretch.features.keys, return_inverse=True)
        if self._proposal == "ssm":
            squares = stretch.weights[stretch.features.rows] * stretch.features.values**2
            residuals = squares * stretch.residuals[stretch.features.rows] ** 2
            ranks = np.bincount(places, residuals) / np.maximum(np.bincount(places, squares), np.finfo(float).tiny)
        else:
            slots = self._learner.table.slots
            taken = np.flatnonzero(slots["key"])
            taken = taken[np.argsort(slots["key"][taken])]
            found = taken[np.searchsorted(slots["key"][taken], keys).clip(max=len(taken) - 1)]
            ranks = np.abs(slots["weight"][found]) * slots["scale"][found]
            ranks[slots["key"][found] != keys] = 0.0  # it has lost its slot
        ranks[np.isin(keys, np.array(self.parents, np.uint64))] = 0.0
        examples = self._learner.examples
        wanted = int((self._nonzeros / examples) ** self._alpha) if examples else 0
        best = np.lexsort((keys, -ranks))[:wanted]
        return [int(key) for key in keys[best[ranks[best] > 0.0]]]

    def admit(self, parents: list[int], stretch: _Stretch) -> None:
        """Make features of those products of the parents that pass the test on the stretch, the most useful first."""
        portions = self._counted(candidate_entries(stretch.base, stretch.features, parents, self._members))
        residuals = Residuals.around_mean(stretch.residuals, stretch.weights)
        judged = judge(portions, np.array(parents, np.uint64), stretch.features, residuals)
        for place in judged.passed():
            parent, factor = parents[judged.parents[place]], int(judged.factors[place])
            key = int(judged.keys[place])
            self.products[key] = AdmittedProduct(parent, factor)
            self._members[key] = self._members.get(parent, frozenset({parent})) | {factor}
        self.parents += parents

    def _counted(self, portions: Iterable[CandidateEntries]) -> Iterator[CandidateEntries]:
        for portion in portions:
            self.tested += len(portion.rows)
            yield portion
