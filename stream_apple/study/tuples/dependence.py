"""KDB, Sahami's k-dependence classifier, and sKDB, which chooses k and the attributes by leaving one out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import Codes
from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import MOST_BITS, all_tuples
from stream_apple.study.tuples.measures import Worth, worth_of
from stream_apple.study.tuples.model import M, count_model
from stream_apple.study.tuples.selection import mutual_information


class Dependence(NamedTuple):
    """A classifier: attributes in the order of their information, each with what it depends on besides the class.

    attributes  the one first that says most of the class
    parents     of each, the earlier ones on which it depends most, at most k
    """

    attributes: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]


def find_dependence(table: DiscreteTable, rows: NDArray[np.int64], most_parents: int) -> Dependence:
    """Which attributes depend on which: each takes up to so many earlier ones of the largest I(X_i; X_j | Y)."""
    of_class = np.bincount(table.labels[rows], minlength=table.classes)
    attributes = len(table.cardinalities)
    alone = mutual_information(count_model(table, rows, all_tuples(attributes, 1)), of_class)
    order = np.argsort(-alone, kind="stable")
    conditional = np.zeros((attributes, attributes))
    if most_parents and attributes > 1:
        for i, j in all_tuples(attributes, 2).tolist():
            conditional[i, j] = conditional[j, i] = _conditional_information(table, rows, i, j)
    parents = []
    for place, each in enumerate(order):
        earlier = order[:place]
        best = np.argsort(-conditional[each, earlier], kind="stable")[:most_parents]
        parents.append(tuple(int(parent) for parent in earlier[best]))
    return Dependence(tuple(int(each) for each in order), tuple(parents))


def _conditional_information(table: DiscreteTable, rows: NDArray[np.int64], i: int, j: int) -> float:
    """I(X_i; X_j | Y), in nats, of raw counts."""
    sizes = (table.classes, int(table.cardinalities[i]), int(table.cardinalities[j]))
    codes = np.ravel_multi_index((table.labels[rows], table.codes[rows, i], table.codes[rows, j]), sizes)
    joint = np.bincount(codes, minlength=int(np.prod(sizes))).reshape(sizes) / len(rows)
    given = joint.sum(axis=(1, 2), keepdims=True)
    independent = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log((joint * given)[seen] / independent[seen])).sum())


def attribute_terms(
    table: DiscreteTable,
    trained: NDArray[np.int64],
    tested: NDArray[np.int64] | None,
    attribute: int,
    parents: tuple[int, ...],
) -> NDArray[np.float64]:
    """float64[m, classes]: log P(x | parents, y) by m-estimates of the rows trained.

    tested  the rows it is wanted of; None: of the rows trained themselves, each without its own counts
    """
    context = _mixed(table, parents)
    size = int(table.cardinalities[attribute])
    whole = context * size + table.codes[:, attribute]
    contexts = int(np.prod([table.cardinalities[parent] for parent in parents], dtype=np.float64))
    if contexts * size * table.classes > MOST_BITS >> 5:
        raise ValueError(f"expected fewer values of an attribute and its parents, found {contexts * size:,}")
    of_context = _counts(context[trained], table.labels[trained], contexts, table.classes)
    of_whole = _counts(whole[trained], table.labels[trained], contexts * size, table.classes)
    rows = trained if tested is None else tested
    upper, lower = of_whole[whole[rows]].astype(np.float64), of_context[context[rows]].astype(np.float64)
    if tested is None:
        own = np.arange(len(rows)), table.labels[rows]
        upper[own] -= 1.0
        lower[own] -= 1.0
    terms: NDArray[np.float64] = np.log((upper + M / size) / (lower + M))
    return terms


def _mixed(table: DiscreteTable, attributes: tuple[int, ...]) -> NDArray[np.int64]:
    """The values of these attributes as one code, of every row."""
    code = np.zeros(len(table.codes), np.int64)
    for attribute in attributes:
        code = code * table.cardinalities[attribute] + table.codes[:, attribute]
    return code


def _counts(codes: NDArray[np.int64], labels: Codes, size: int, classes: int) -> NDArray[np.int64]:
    """[size, classes]."""
    return np.bincount(codes * classes + labels, minlength=size * classes).reshape(size, classes)


class DependenceFit(NamedTuple):
    """A classifier that was chosen: how many parents and attributes it has, and its errors on the rows tested."""

    parents: int
    attributes: int
    parameters: int
    worth: Worth


def fit_dependence(
    table: DiscreteTable, trained: NDArray[np.int64], tested: NDArray[np.int64], most_parents: int, *, selective: bool
) -> DependenceFit:
    """KDB with so many parents; selective: sKDB, with the parents and attributes of the least error, one left out."""
    dependence = find_dependence(table, trained, most_parents)
    parents, attributes = most_parents, len(dependence.attributes)
    if selective:
        parents, attributes = _choose(table, trained, dependence, most_parents)
    scores = _class_terms(table, trained, len(tested))
    parameters = 0
    for attribute, allowed in zip(dependence.attributes[:attributes], dependence.parents, strict=False):
        scores += attribute_terms(table, trained, tested, attribute, allowed[:parents])
        values = np.unique(_mixed(table, (*allowed[:parents], attribute))[trained])
        parameters += len(values) * table.classes
    return DependenceFit(parents, attributes, parameters, worth_of(_normalised(scores), table.labels[tested]))


def _choose(
    table: DiscreteTable, trained: NDArray[np.int64], dependence: Dependence, most_parents: int
) -> tuple[int, int]:
    """How many parents and attributes have the least root mean squared error, each row being left out of its counts."""
    best, chosen = np.inf, (0, 0)
    for parents in range(most_parents + 1):
        scores = _class_terms(table, trained, None)
        for used, (attribute, allowed) in enumerate(zip(dependence.attributes, dependence.parents, strict=True), 1):
            scores += attribute_terms(table, trained, None, attribute, allowed[:parents])
            error = worth_of(_normalised(scores), table.labels[trained]).rmse
            if error < best:
                best, chosen = error, (parents, used)
    return chosen


def _class_terms(table: DiscreteTable, trained: NDArray[np.int64], rows: int | None) -> NDArray[np.float64]:
    """float64[m, classes]: log P(y), of so many rows; None: of the rows trained, each left out."""
    of_class = np.bincount(table.labels[trained], minlength=table.classes)
    counts = np.tile(of_class.astype(np.float64), (len(trained) if rows is None else rows, 1))
    if rows is None:
        counts[np.arange(len(trained)), table.labels[trained]] -= 1.0
    terms: NDArray[np.float64] = np.log((counts + M / table.classes) / (counts.sum(axis=1, keepdims=True) + M))
    return terms


def _normalised(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log probabilities."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalised
