"""`stream-apple evaluate --ngrams` and `--bigrams`: those of files are those that a worker would make."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.evaluate_command import evaluate
from support.records import FakeRecord

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.config import load
from stream_apple.errors import InputFileError
from stream_apple.files import read_examples
from stream_apple.records.message.example import encode_example, key_of
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.positions.lineage import Lineage

LINEAR = ("--method", "linear", "--loss", "logistic", "--json")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """2,000 lines of Vowpal Wabbit text whose label is the word behind "not", of two that all of them have."""
    rng = np.random.default_rng(6)
    lines = []
    for _ in range(2000):
        first, second = rng.permutation(["good", "bad"]).tolist()
        words = f"w{rng.integers(9)} not {first} v{rng.integers(9)} but {second}"
        lines.append(f"{1 if first == 'bad' else -1} |text {words} |author a{rng.integers(5)} b{rng.integers(5)}")
    path = tmp_path / "reviews.vw"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_order_tells(reviews: Path) -> None:
    """Words alone are chance, pairs of them are not; each spelling does what it says."""
    found = {
        arguments: json.loads(evaluate(reviews, *LINEAR, *arguments).stdout)
        for arguments in ((), ("--bigrams",), ("--ngrams", "*=2"), ("--ngrams", "text=2"), ("--ngrams", "author=2"))
    }
    assert found["--ngrams", "*=2"]["test_loss"] == found["--bigrams",]["test_loss"]
    counts = [round(each["features_per_example"]) for each in found.values()]
    assert counts == [9, 15, 15, 14, 10]
    errors = [each["test_error"] for each in found.values()]
    assert min(errors[0], errors[4]) > 0.4
    assert max(errors[1:4]) < 0.02


def test_formats_with_an_order(tmp_path: Path) -> None:
    """Of svmlight it is that of the indices; of CSV, that of the columns; of JSON, that of the keys."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, (800, 2)).tolist()
    label = [1 if left == right else -1 for left, right in rows]
    texts = {
        "a.svm": [f"{y} {1 + left}:1 {3 + right}:1" for y, (left, right) in zip(label, rows, strict=True)],
        "a.csv": ["label,l,r", *(f"{y},x{left},y{right}" for y, (left, right) in zip(label, rows, strict=True))],
        "a.jsonl": [
            json.dumps({"label": y, "features": {"l": f"x{left}", "r": f"y{right}"}})
            for y, (left, right) in zip(label, rows, strict=True)
        ],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        plain, pairs = (
            json.loads(evaluate(tmp_path / name, *LINEAR, *options).stdout) for options in ((), ("--ngrams", "=2"))
        )
        assert plain["test_error"] > 0.3, name
        assert (pairs["test_error"], pairs["features_per_example"]) == (0, 4), name


def test_they_are_those_of_a_worker(reviews: Path, tmp_path: Path) -> None:
    """Without Kafka, the predictions are those of a worker of the same settings, to the last bit."""
    out, config = tmp_path / "predictions", tmp_path / "config.toml"
    config.write_text('[learner]\nmethod = "apple"\nloss = "logistic"\nngrams = { text = 2 }\n')
    options = ["--loss", "logistic", "--ngrams", "text=2", "--test-fraction", 0, "--no-shuffle", "--epochs", 1]
    result = evaluate(reviews, *options, "--predictions", out)
    assert result.exit_code == 0, result.output
    settings = settings_of(load(config, {}))
    model = model_factory("examples", settings, settings.decoder())(0, Lineage(0, "0123456789abcdef"))
    records: list[Any] = [
        FakeRecord(0, at, encode_example(example), 1_700_000_000_000, key_of(example, at))
        for at, example in enumerate(read_examples(reviews))
    ]
    expected = [decode_prediction(each)["prediction"] for each in model.process(records).predictions]
    assert [float(line) for line in out.read_text().splitlines()] == expected


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--bigrams", "--ngrams", "text=2"), "--bigrams: expected it without --ngrams, found both"),
        (("--ngrams", "text"), "expected namespaces and numbers as in 'text=2,title=3', found 'text'"),
        (("--ngrams", "text=9"), "--ngrams: expected an integer from 2 to 5 for 'text', found 9"),
    ],
    ids=str,
)
def test_what_is_refused(reviews: Path, arguments: tuple[str, ...], fault: str) -> None:
    """By the option's name."""
    result = evaluate(reviews, *arguments)
    assert result.exit_code == 2
    assert fault in " ".join(result.stderr.split())


def test_an_example_has_room_for_all_of_its_ngrams(tmp_path: Path) -> None:
    """Or it is refused: none is learned in part."""
    path = tmp_path / "long.vw"
    path.write_text("1 |text " + " ".join(f"w{n}" for n in range(40_000)) + "\n-1 |text a\n")
    assert evaluate(path, *LINEAR).exit_code == 0
    result = evaluate(path, *LINEAR, "--bigrams")
    assert isinstance(result.exception, InputFileError)
    assert "long.vw, example 1: expected at most 32767 features" in str(result.exception)
