"""Two small data sets: a class that needs a product, and a regression that is nearly linear."""

from pathlib import Path

import numpy as np


def write_tiny_sets(folder: Path, rows: int = 240) -> Path:
    """`pairs.svm`, whose label is the exclusive or of two features, and `slope.svm.gz`; returns the folder."""
    import gzip

    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    bits = rng.integers(0, 2, (rows, 5))
    lines = [
        f"{int(a != b)} {1 + a}:1 {3 + b}:1" + "".join(f" {5 + i}:1" for i in np.flatnonzero(rest))
        for a, b, *rest in bits.tolist()
    ]
    (folder / "pairs.svm").write_text("\n".join(lines) + "\n")
    values = rng.normal(size=(rows, 3))
    labels = 10 + values @ [3.0, -2.0, 1.0] + 0.5 * values[:, 0] * values[:, 1]
    text = "".join(
        f"{label:.6g} " + " ".join(f"{i}:{value:.6g}" for i, value in enumerate(row, 1)) + "\n"
        for label, row in zip(labels, values, strict=True)
    )
    (folder / "slope.svm.gz").write_bytes(gzip.compress(text.encode()))
    return folder
