"""Where tuples of attributes and naive Bayes are worth it for categories, and where not: planted streams.

Six attributes have values by Zipf's law; the label goes by a weight of each value, and by one of each pair of values of
the first two attributes. Either all weights stay what they are, or they are drawn again after every 4,000 examples.
"""

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer
from stream_apple.learners.apple.options import Options
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.tuples.options import TupleOptions
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell

EXAMPLES, ATTRIBUTES, STRETCH = 20_000, 6, 4_000
VALUES = (10, 30, 100, 1_000)
_IN_ORDER = Schedule(epochs=6, test_fraction=0.0, keep_order=True)


def learners() -> dict[str, LearnerOptions]:
    """Return the options of each learner by name."""
    return {
        "apple": Options(loss="logistic"),
        "tuples": TupleOptions(warm_start="none"),
        "tuples, naive Bayes": TupleOptions(warm_start="naive_bayes"),
    }


def plant_categories(examples: int, values: int, *, drifts: bool, seed: int) -> Batch:
    """Draw so many examples, each with a value of every attribute; labels are -1 and 1.

    drifts  whether all weights are drawn again after every STRETCH examples
    """
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, values + 1)
    drawn = rng.choice(values, (examples, ATTRIBUTES), p=shares / shares.sum())
    scores = np.empty(examples)
    for start in range(0, examples, STRETCH if drifts else examples):
        rows = drawn[start : start + (STRETCH if drifts else examples)]
        of_one = rng.normal(size=(ATTRIBUTES, values))[np.arange(ATTRIBUTES), rows].sum(axis=1)
        of_two = rng.normal(scale=2.0, size=(values, values))[rows[:, 0], rows[:, 1]]
        scores[start : start + len(rows)] = of_one + of_two
    labels = np.where(rng.random(examples) < 1.0 / (1.0 + np.exp(-2.0 * scores)), 1.0, -1.0)
    attributes = np.arange(ATTRIBUTES, dtype=np.uint64) + np.uint64(1)
    return Batch(
        np.arange(examples + 1, dtype=np.int64) * ATTRIBUTES,
        _mixed(drawn.astype(np.uint64) * np.uint64(ATTRIBUTES) + attributes).ravel(),
        np.ones(drawn.size, np.float32),
        labels,
        np.ones(examples),
        attributes=np.tile(_mixed(attributes), examples),
    )


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Return a hash of each number, by the finalizer of splitmix64."""
    return splitmix64_finalizer(numbers * GOLDEN)


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    examples, given = min(EXAMPLES, inquiry.rows), learners()
    kinds = [(values, drifts) for drifts in (False, True) for values in VALUES]
    rows: list[tuple[TableCell, ...]] = []
    for done, (values, drifts) in enumerate(kinds):
        inquiry.tell("streams", done, len(kinds))
        streams = [plant_categories(examples, values, drifts=drifts, seed=seed) for seed in range(inquiry.seeds)]
        errors = (
            fmean(evaluate(stream, options, _IN_ORDER).result.progressive_error or 0.0 for stream in streams)
            for options in given.values()
        )
        rows.append((f"{values:,} values, {'drifting' if drifts else 'stationary'}", *errors))
    inquiry.tell("streams", len(kinds), len(kinds))
    yield StudyFinding(
        "categories",
        f"Progressive error, {examples:,} examples of {ATTRIBUTES} attributes, mean of {inquiry.seeds} streams",
        ("stream", *given),
        tuple(rows),
    )


EXPERIMENT = Experiment(_run)
