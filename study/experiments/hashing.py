"""The hashing trick beside a table in which every feature keeps its identity, at the same sizes."""

from collections.abc import Iterator
from statistics import fmean

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from study.experiments.experiment import Experiment, Inquiry, Plot, PlotLine, StudyFinding, slug
from study.experiments.splits import learned_splits
from study.preparation import load_set

BITS = (8, 10, 12, 14, 16, 18, 20)
COLLISIONS = ("evict", "share")


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets")
        found = []
        for place, bits in enumerate(BITS):
            inquiry.tell(name, place, len(BITS))
            found.append(tuple(_error(batch, bits, collisions, inquiry.seeds) for collisions in COLLISIONS))
        inquiry.tell(name, len(BITS), len(BITS))
        sizes = tuple(float(bits) for bits in BITS)
        curves = [PlotLine(label, sizes, tuple(row[place] for row in found)) for place, label in enumerate(COLLISIONS)]
        yield StudyFinding(
            f"curve-{slug(name)}",
            f"Test error by the bits of the table, method linear: {name}, mean of {inquiry.seeds} splits",
            ("bits", *COLLISIONS),
            tuple((str(bits), *row) for bits, row in zip(BITS, found, strict=True)),
            plot=Plot("bits", "test error", tuple(curves)),
        )


def _error(batch: Batch, bits: int, collisions: str, seeds: int) -> float:
    """Return the mean test error over the seeds."""
    options = Options(method="linear", loss="logistic", bits=bits, collisions=collisions)  # type: ignore[arg-type]
    return fmean(error for _, error in learned_splits(batch, options, seeds))


EXPERIMENT = Experiment(_run, ("20news",))
