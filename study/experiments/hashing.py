"""The hashing trick beside a table in which every feature keeps its identity, at the same sizes.

In the learner `hashed`, features of equal hash share a weight. In the product's table a slot belongs to one feature,
and the least useful one makes room for another.
"""

from collections.abc import Callable, Iterator
from statistics import fmean

from stream_apple.learners.apple.learner import Learner as AppleLearner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from study.experiments.experiment import Experiment, Inquiry, Plot, PlotLine, StudyFinding, slug
from study.preparation import load_set
from study.runs.split_pass import Learning, passes_over_splits

BITS = (8, 10, 12, 14, 16, 18, 20)


def learners(bits: int) -> dict[str, Callable[[], Learning]]:
    """Return, by name, what makes a linear learner with so large a table."""
    identity = Options(method="linear", loss="logistic", bits=bits)
    shared = HashedOptions(loss="logistic", bits=bits)
    return {"identity": lambda: AppleLearner(identity), "shared": lambda: HashedLearner(shared)}


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    names = tuple(learners(BITS[0]))
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets")
        found = []
        for place, bits in enumerate(BITS):
            inquiry.tell(name, place, len(BITS))
            splits = (passes_over_splits(make, batch, inquiry.seeds) for make in learners(bits).values())
            found.append(tuple(fmean(figures.test_error or 0.0 for _, figures in each) for each in splits))
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


EXPERIMENT = Experiment(_run, ("20news",))
