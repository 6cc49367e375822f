"""Parents by the squared residuals that they explain, against sums kept by name; all of it is in the digest."""

import numpy as np
import pytest
from learners.apple.paper.supports import Monomial, monomials_of, parents_of
from learners.apple.test_learner import LOSSES, Row, batch_of, monomial_key, planted_rows

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Options, Selection
from stream_apple.learners.scores import Scores

SIZE, EPOCH = 480, 120


def residual(loss: LossName, score: float, label: float) -> float:
    """The label less the score; for the logistic loss, its derivative."""
    return label - score if loss == "squared" else label / (1.0 + float(np.exp(score * label)))


class Sums:
    """Of each monomial since it was given its slot: importance * residual^2 * x^2, and importance * x^2."""

    def __init__(self, loss: LossName) -> None:
        self.loss = loss
        self.of: dict[Monomial, tuple[float, float]] = {}
        self.parents: set[Monomial] = set()
        self.seen: set[Monomial] = {()}
        self.lost = 0

    def learn(self, learner: Learner, row: Row) -> None:
        """Learn one example and add it to the sums of those of its monomials that have slots afterwards."""
        scores = Scores.empty(1)
        learner.learn(batch_of([row]), 0, 1, scores)
        keys = set(learner.slots()["key"].tolist())
        values = monomials_of(row.features, self.parents)
        self.seen |= set(values)
        gone = [monomial for monomial in self.of if monomial_key(monomial) not in keys]
        self.lost += len(gone)
        for monomial in gone:
            del self.of[monomial]
        if row.label is None or not row.weight:
            return
        squared = residual(self.loss, float(scores.predictions[0]), row.label) ** 2
        for monomial, x in values.items():
            if monomial_key(monomial) in keys:
                square = row.weight * float(np.float32(x)) ** 2
                explained, squares = self.of.get(monomial, (0.0, 0.0))
                self.of[monomial] = explained + squared * square, squares + square

    def best(self, wanted: int) -> set[Monomial]:
        """Those that shall become parents."""
        ratios = {
            monomial: np.float32(sums[0] / sums[1])
            for monomial, sums in self.of.items()
            if monomial and monomial not in self.parents and sums[0] > 0
        }
        return set(sorted(ratios, key=lambda each: (-ratios[each], monomial_key(each)))[:wanted])


@pytest.mark.parametrize(("bits", "names"), [(14, 10), (8, 40)], ids=["roomy table", "full table"])
@pytest.mark.parametrize("loss", LOSSES)
def test_parents_explain_the_most(loss: LossName, bits: int, names: int) -> None:
    """The sums are those of the definition, for monomials of all degrees, and the largest ratios become parents."""
    rows = planted_rows(SIZE, seed=7, binary=True, names=names)
    # Powers of two times ones: products are exact, whichever way they are reached.
    rows = [row._replace(features={name: 2.0 ** (int(name[1:]) % 3) for name in row.features}) for row in rows]
    learner = Learner(Options(loss=loss, bits=bits, mixture=False, selection="ssm", alpha=0.8))
    sums, nonzeros, learned = Sums(loss), 0, 0
    for number, row in enumerate(rows, 1):
        sums.learn(learner, row)
        if row.label is not None and row.weight:
            nonzeros, learned = nonzeros + len(row.features), learned + 1
        if number % EPOCH:
            continue
        slots, residuals = learner.slots(), learner.table.residuals
        for monomial, expected in sums.of.items():
            places = np.flatnonzero(slots["key"] == monomial_key(monomial))
            place = places[0] if monomial else len(slots) - 1
            np.testing.assert_allclose(residuals[place].tolist(), expected, rtol=1e-9)
        wanted = int((nonzeros / learned) ** 0.8)
        chosen = sums.best(wanted)
        assert learner.end_epoch().added == wanted
        assert parents_of(learner, sums.seen) == sums.parents | chosen
        sums.parents |= chosen
    assert max(map(len, sums.of)) >= 3, "the test must see products of products"
    assert (sums.lost > 0) == (bits == 8)


def test_it_chooses_others_than_weights_do() -> None:
    """Else the option would change nothing."""
    parents = []
    selections: tuple[Selection, ...] = ("weight", "ssm")
    for selection in selections:
        learner = Learner(Options(bits=12, mixture=False, selection=selection))
        batch = batch_of(planted_rows(SIZE, seed=3, binary=True))
        learner.learn(batch, 0, SIZE, Scores.empty(SIZE))
        learner.end_epoch()
        slots = learner.slots()
        parents.append(set(slots["key"][slots["parent"] == 1].tolist()))
    assert parents[0] != parents[1]


def test_labels_of_any_unit_grow() -> None:
    """Means of squares of tiny residuals are tiny, and still of an order."""
    rows = [row._replace(label=row.label and row.label * 1e-6) for row in planted_rows(SIZE, seed=3, binary=True)]
    learner = Learner(Options(bits=12, mixture=False, selection="ssm"))
    learner.learn(batch_of(rows), 0, SIZE, Scores.empty(SIZE))
    assert learner.end_epoch().added > 0


def test_digest_and_copy_have_the_sums_of_all_degrees() -> None:
    """A bit of a product's sum decides over parents to come, and is in both."""
    learner = Learner(Options(bits=12, mixture=False, selection="ssm"))
    batch = batch_of(planted_rows(SIZE, seed=3, binary=True))
    for start in range(0, SIZE, EPOCH):
        learner.learn(batch, start, start + EPOCH, Scores.empty(SIZE))
        learner.end_epoch()
    table = learner.table
    copied, before = learner.state.copy().rows["residuals"].reshape(-1), learner.digest()
    for degree in (1, 2, 3):
        place = np.flatnonzero(table.slots["degree"] == degree)[0]
        assert copied[place] == table.residuals[place]
        kept = float(table.residuals["squares"][place])
        table.residuals["squares"][place] = np.nextafter(kept, np.inf)
        assert learner.digest() != before
        assert copied["squares"][place] == kept
        table.residuals["squares"][place] = kept
    assert learner.digest() == before
    assert copied.tobytes() == table.residuals[:-1].tobytes()
