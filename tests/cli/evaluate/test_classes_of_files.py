"""`stream-apple evaluate --loss softmax`: loss and error of each predictor, and what it says of other labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli.test_evaluate import KEYS, side_by_side
from support.evaluate_command import evaluate


def test_classes_have_loss_and_error_beside_linears(tmp_path: Path) -> None:
    """Three classes that products tell apart; predictions are lines of a class and its probability."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2, (3000, 6))
    labels = np.where(bits[:, 0] == bits[:, 1], 0, np.where(bits[:, 2] == bits[:, 3], 1, 2))
    path, predictions = tmp_path / "classes.svm", tmp_path / "predictions"
    lines = (
        f"{label} " + " ".join(f"{2 * i + bit + 1}:1" for i, bit in enumerate(row))
        for label, row in zip(labels.tolist(), bits.tolist(), strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    softmax = (path, "--loss", "softmax", "--classes", 3)
    result = json.loads(evaluate(*softmax, "--json", "--no-shuffle", "--predictions", predictions).stdout)
    progressive, test = (
        [f"{name}_{part}_error" for name in ("linear", "expanded")] for part in ("progressive", "test")
    )
    errors = [*progressive, "best_constant_error", *test]
    assert list(result) == KEYS + errors
    assert result["test_error"] == result["expanded_test_error"] == 0 < result["linear_test_error"]
    assert result["progressive_error"] < result["linear_progressive_error"]
    assert result["progressive_auc"] is None
    trained = labels[:2400]
    assert result["best_constant_error"] == pytest.approx(1 - np.bincount(trained).max() / 2400)
    told = np.loadtxt(predictions)
    assert (told[:, 0] != trained).mean() == pytest.approx(result["progressive_error"])
    assert ((told[:, 1] > 1 / 3 - 1e-9) & (told[:, 1] <= 1)).all()
    _, rows = side_by_side(evaluate(*softmax).stdout)
    assert {"progressive loss", "progressive error", "test loss", "test error"} == rows.keys()
    error = evaluate(path, "--loss", "softmax", "--classes", 2).exception
    assert "expected a label that is a whole number from 0 to 1, found a number: 2" in str(error)
    assert "--classes" in evaluate(path, "--loss", "softmax").output
