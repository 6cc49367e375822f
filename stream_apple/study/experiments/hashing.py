"""The hashing trick beside the product's table, in which every feature keeps its identity, at the same sizes."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.options import Options
from stream_apple.study.experiments.experiment import Experiment, Inquiry, Plot, PlotLine, StudyFinding, slug
from stream_apple.study.logistic.hashing import AdaptiveLogistic, hashed
from stream_apple.study.logistic.sparse_rows import SparseRows
from stream_apple.study.logistic.trial import load_rows, parts_of, product_scores, share_wrong

BITS = (8, 10, 12, 14, 16, 18, 20)
RATE = 0.3
_ROOMY = 22  # bits of a table in which nothing of 2^20 features is evicted
_COLUMNS = ("AdaGrad, hashed", "AdaGrad, signed", "product, evicting", "product, hashed")


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    for name, data_set in inquiry.sets.items():
        rows, keys = load_rows(data_set, inquiry.rows, inquiry.out / "sets")
        found = []
        for place, bits in enumerate((*BITS, None)):
            inquiry.tell(name, place, len(BITS) + 1)
            errors = [_errors(rows, keys, bits, seed) for seed in range(inquiry.seeds)]
            found.append(tuple(float(each) for each in np.mean(errors, axis=0)))
        inquiry.tell(name, len(BITS) + 1, len(BITS) + 1)
        sizes = tuple(float(bits) for bits in BITS)
        curves = [
            PlotLine(label, sizes, tuple(row[place] for row in found[:-1])) for place, label in enumerate(_COLUMNS)
        ]
        level = PlotLine("AdaGrad, not hashed", (sizes[-1],), (found[-1][0],))
        yield StudyFinding(
            f"curve-{slug(name)}",
            f"Test error by the bits of the table: {name}, {rows.size:,} features, mean of {inquiry.seeds} splits",
            ("bits", *_COLUMNS),
            tuple((label, *row) for label, row in zip((*map(str, BITS), "not hashed"), found, strict=True)),
            "20news, AdaGrad: .252, .174, .125, .098, .092, .0894, .0886; signs change it by .003 at most.",
            Plot("bits", "test error", (*curves, level)),
        )


def _errors(rows: SparseRows, keys: NDArray[np.uint64], bits: int | None, seed: int) -> tuple[float, ...]:
    """Of the columns of the table; without bits, nothing is hashed and nothing evicted."""
    learned, tested = parts_of(len(rows.labels), seed)
    labels = rows.labels[tested]
    plain = rows if bits is None else hashed(rows, keys, bits, signed=False, seed=seed)
    signed = rows if bits is None else hashed(rows, keys, bits, signed=True, seed=seed)
    errors = []
    for each in (plain, signed):
        model = AdaptiveLogistic(each.size, RATE)
        model.learn(each.select(learned))
        errors.append(share_wrong(model.predict(each.select(tested)), labels))
    # The product twice: as it is, and as it would be if features shared slots, having room for every slot.
    for each, room in ((rows, bits or _ROOMY), (plain, _ROOMY)):
        options = Options(method="linear", loss="logistic", bits=room)
        scores = product_scores(each.select(learned), each.select(tested), options)
        errors.append(share_wrong(scores, labels))
    return tuple(errors)


EXPERIMENT = Experiment(_run, ("20news",))
