"""Where tuples and naive Bayes pay for categories and words, and where not: `python tests/bench/categories.py [SEEDS]`.

Streams are planted, of 20,000 examples in their order. Categories: six attributes, whose values are drawn by Zipf's
law; the label goes by a weight of each value, and by one of each pair of values of the first two attributes. Texts:
eight of 2,000 words. Either all weights stay what they are, or they are drawn anew after each 4,000 examples. Logistic
loss, one pass of six epochs, defaults: share of wrong signs of predictions made before learning, mean of SEEDS (3)
streams.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from stream_apple.core.batch import Batch, Limits
from stream_apple.learners.apple.options import Options
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule

EXAMPLES, ATTRIBUTES, WORDS, LENGTH, STRETCH = 20_000, 6, 2_000, 8, 4_000
METHODS = {
    "default": Options(loss="logistic"),
    "the same, naive Bayes": Options(loss="logistic", warm_start="naive_bayes"),
    "tuples": Options(loss="logistic", method="tuples", combine="off"),
    "tuples, naive Bayes": Options(loss="logistic", method="tuples", combine="off", warm_start="naive_bayes"),
}


def drawn(rng: np.random.Generator, values: int, size: tuple[int, int]) -> np.ndarray:
    """Numbers below `values` by Zipf's law, int64[size]."""
    shares = 1.0 / np.arange(1, values + 1)
    return rng.choice(values, size, p=shares / shares.sum())


def planted(seed: int, values: int | None, *, drifts: bool) -> list[str]:
    """The stream as JSON lines: of categories with so many values, or of texts."""
    rng = np.random.default_rng(seed)
    found = drawn(rng, values or WORDS, (EXAMPLES, ATTRIBUTES if values else LENGTH))
    lines = []
    for number, row in enumerate(found.tolist()):
        if number == 0 or (drifts and number % STRETCH == 0):
            alone = rng.normal(size=(ATTRIBUTES, values) if values else WORDS)
            pairs = rng.normal(scale=2.0, size=(values, values)) if values else None
        if pairs is None:
            score, names = alone[row].sum(), [f"w{word}" for word in dict.fromkeys(row)]
        else:
            score = alone[np.arange(ATTRIBUTES), row].sum() + pairs[row[0], row[1]]
            names = [f"a{place}=v{value}" for place, value in enumerate(row)]
        label = 1 if rng.random() < 1 / (1 + np.exp(-2 * score)) else -1
        lines.append(json.dumps({"label": label, "features": dict.fromkeys(names, 1)}))
    return lines


def read(lines: list[str], options: Options) -> Batch:
    """The stream with all that the options want of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planted.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        limits = Limits(1_000, 1 << 20, 1e9, -1.0, 1.0, binary=True)
        return read_batch([path], limits, columns=options.wanted_columns())


def main(seeds: int) -> None:
    """Print a row of a table for each kind of stream."""
    print("| stream |", " | ".join(METHODS), "|")
    print("|---|" + "---|" * len(METHODS))
    for values in (10, 30, 100, 1_000, None):
        for drifts in (False, True):
            cells = []
            for name, options in METHODS.items():
                if values is None and "tuples" in name:
                    cells.append("")
                    continue
                errors = [
                    evaluate(
                        read(planted(seed, values, drifts=drifts), options),
                        options,
                        Schedule(epochs=6, test_fraction=0.0, keep_order=True),
                    ).result.progressive_error
                    or 0.0
                    for seed in range(seeds)
                ]
                cells.append(f"{np.mean(errors):.3f}".removeprefix("0"))
            kind = f"{values:,} values" if values else "texts"
            print(f"| {kind}, {'drifting' if drifts else 'standing'} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
