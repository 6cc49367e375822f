"""`stream-apple tail` of predictions that are classes."""

import msgpack
import pytest
from support.records import FakeRecord

from stream_apple.app.tail import _prediction
from stream_apple.cli.tail import _row

TOLD = {
    "id": "u1",
    "prediction": 2.0,
    "probability": 0.8125,
    "label": 1.0,
    "loss": 1.5,
    "epoch": 7,
    "model": "f" * 16,
    "topic": "examples",
    "partition": 0,
    "offset": 41,
}


def record_of(told: dict[str, object]) -> FakeRecord:
    """A message of the predictions topic."""
    return FakeRecord(0, 5, msgpack.packb(told), 1_700_000_000_000)


def test_the_probability_stands_beside_the_class() -> None:
    """In the facts of JSON, and in the row before the id; a score has none."""
    message = _prediction("predictions", record_of(TOLD))
    assert (message.kind, message.told["probability"], message.told["prediction"]) == ("prediction", 0.8125, 2.0)
    assert _row(message, "examples", "g", 200).endswith("2           1         1.5  probability 0.812  u1")
    score = {name: value for name, value in TOLD.items() if name != "probability"}
    plain = _prediction("predictions", record_of(score))
    assert "probability" not in plain.told
    assert _row(plain, "examples", "g", 200).endswith("1.5  u1")


@pytest.mark.parametrize("probability", ["high", None, True, [0.5]])
def test_what_is_no_probability_is_told(probability: object) -> None:
    """Anyone may write to the topic."""
    message = _prediction("predictions", record_of({**TOLD, "probability": probability}))
    assert message.kind == "unreadable"
