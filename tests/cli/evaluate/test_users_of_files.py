"""`stream-apple evaluate --personalise`: users of files are those that `produce` would send."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.evaluate_command import evaluate
from support.records import FakeRecord

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.config import load
from stream_apple.core.codec.example import encode_example, key_of
from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.files import read_examples
from stream_apple.stream.positions.lineage import Lineage


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """2,000 examples whose label is a word's, or the opposite for half of the users; most tags are the user."""
    rng = np.random.default_rng(6)
    lines = []
    for at in range(2000):
        user, word = int(rng.integers(6)), int(rng.integers(10))
        label = (1 if word < 5 else -1) * (1 if user < 3 else -1)
        tag = f" 'u{user}" if at % 20 else " "
        lines.append(f"{label}{tag}|user u{user} |word w{word} n{int(rng.integers(5))}")
    path = tmp_path / "users.vw"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("method", "by"), [("linear", "user"), ("linear", "key"), ("apple", "key")])
def test_users_are_told_apart(users: Path, method: str, by: str) -> None:
    """Half of the users mean the opposite: shared weights stay at chance, their own do not.

    Without growth: products of users and words would be weights of their own.
    """
    alone = ["--early-growth", 0] if method == "apple" else []
    runs = [
        json.loads(evaluate(users, "--json", "--method", method, "--loss", "logistic", *options, "--epochs", 1).stdout)
        for options in (alone, [*alone, "--personalise", by])
    ]
    shared, own = (run["test_error"] for run in runs)
    assert shared > 0.4
    assert own < 0.1


def test_users_by_key_are_those_of_a_worker(users: Path, tmp_path: Path) -> None:
    """Without Kafka the key is what `produce` would give: the predictions are those of a worker, to the last bit."""
    out = tmp_path / "predictions"
    options = ["--personalise", "key", "--method", "linear", "--loss", "logistic", "--test-fraction", 0]
    result = evaluate(users, *options, "--no-shuffle", "--epochs", 1, "--predictions", out)
    assert result.exit_code == 0, result.output
    environ = {"METHOD": "linear", "LOSS": "logistic", "PERSONALISE": "key"}
    settings = settings_of(load(None, {f"STREAM_APPLE_LEARNER__{name}": value for name, value in environ.items()}))
    model = model_factory("examples", settings, settings.decoder())(0, Lineage(0, "0123456789abcdef"))
    records: list[Any] = [
        FakeRecord(0, at, encode_example(example), 1_700_000_000_000, key_of(example, at))
        for at, example in enumerate(read_examples(users))
    ]
    expected = [decode_prediction(each)["prediction"] for each in model.process(records).predictions]
    assert [float(line) for line in out.read_text().splitlines()] == expected


def test_users_by_a_field_are_those_by_the_key(users: Path, tmp_path: Path) -> None:
    """`--key-field` names where the user stands: with epochs by time or not, as if it had been the id."""
    lines = [line.partition("|user ")[::2] for line in users.read_text().splitlines()]
    by_id, by_field = tmp_path / "by_id", tmp_path / "by_field"
    by_id.write_text("".join(f"{head.split(' ')[0]} '{body.split(' ')[0]}|user {body}\n" for head, body in lines))
    by_field.write_text("".join(f"{head.split(' ')[0]} |user {body}\n" for head, body in lines))
    options = ["--personalise", "key", "--method", "linear", "--loss", "logistic", "--no-shuffle"]
    for more in (["--epochs", 1], ["--interval", "1s", "--epoch-length", "1h"]):
        outs = [tmp_path / name for name in ("expected", "found", "without")]
        runs = [(by_id, []), (by_field, ["--key-field", "user"]), (by_field, [])]
        for (path, fields), out in zip(runs, outs, strict=True):
            result = evaluate(path, *options, *more, *fields, "--predictions", out)
            assert result.exit_code == 0, result.output
        expected, found, without = (out.read_text() for out in outs)
        assert expected == found != without
