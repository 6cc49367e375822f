"""The hashing trick beside a table in which every feature keeps its identity, at the same sizes.

In the learner `hashed`, features of equal hash share a weight. In the product's table a slot belongs to one feature,
and the least useful one makes room for another.
"""

from collections.abc import Iterator
from statistics import fmean

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.port import LearnerOptions
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from study.experiments.experiment import Experiment, Inquiry, Plot, PlotLine, StudyFinding, slug
from study.preparation import load_set

BITS = (8, 10, 12, 14, 16, 18, 20)


def learners(bits: int) -> dict[str, LearnerOptions]:
    """Return the options of linear models with so large a table, by name."""
    return {
        "identity": Options(method="linear", loss="logistic", bits=bits),
        "shared": HashedOptions(loss="logistic", bits=bits),
    }


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    names = tuple(learners(BITS[0]))
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets")
        found = []
        for place, bits in enumerate(BITS):
            inquiry.tell(name, place, len(BITS))
            found.append(tuple(_error(batch, options, inquiry.seeds) for options in learners(bits).values()))
        inquiry.tell(name, len(BITS), len(BITS))
        sizes = tuple(float(bits) for bits in BITS)
        curves = [PlotLine(label, sizes, tuple(row[place] for row in found)) for place, label in enumerate(names)]
        yield StudyFinding(
            f"curve-{slug(name)}",
            f"Test error by the bits of the table, linear models: {name}, mean of {inquiry.seeds} splits",
            ("bits", *names),
            tuple((str(bits), *row) for bits, row in zip(BITS, found, strict=True)),
            plot=Plot("bits", "test error", tuple(curves)),
        )


def _error(batch: Batch, options: LearnerOptions, seeds: int) -> float:
    """Return the mean test error over the seeds, after one epoch."""
    return fmean(evaluate(batch, options, Schedule(1, seed=seed)).result.test_error or 0.0 for seed in range(seeds))


EXPERIMENT = Experiment(_run, ("20news",))
