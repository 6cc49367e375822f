"""Models of n-grams on a partition: from records to snapshots, views and names."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from stream.verification.published_logs import MemoryLogs
from support.records import HOUR, SETTINGS, START, TOPIC, FakeRecord
from support.snapshots import pointer

from stream_apple.learners.apple.options import Options
from stream_apple.learners.systems import ngrams_of
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.name_search import Wanted, find_names
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot

CASES: tuple[dict[str, Any], ...] = (
    {"method": "linear", "ngrams": {"text": 2}},
    {"method": "apple", "ngrams": {"*": 3}},
    {"method": "apple", "ngrams": {"*": 2, "user": 1}, "discretise": "spline", "mixture": False},
)


def records(count: int = 300) -> list[FakeRecord]:
    """JSON over six hours: whether a film is not good, or good and not bad, is in the order of the words."""
    draw, found = random.Random(7), []
    for at in range(count):
        first, second = draw.sample(["good", "bad"], 2)
        words = [f"w{draw.randrange(6)}", "not", first, f"v{draw.randrange(6)}", "but", second]
        text = ", ".join(f"{json.dumps(word)}: true" for word in words)
        label = 1 if second == "good" else -1
        value = f'{{"label": {label}, "features": {{"user": {{"u{draw.randrange(3)}": 1}}, "text": {{{text}}}}}}}'
        found.append(FakeRecord(0, at, value.encode(), START + at * 6 * HOUR // count))
    return found


def model_of(**options: Any) -> PartitionModel:
    """One that has learned nothing, with a decoder of what it needs."""
    settings = SETTINGS._replace(options=replace(Options(**options), bits=12))
    return PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), settings, settings.decoder())


@pytest.mark.parametrize("options", CASES, ids=str)
def test_snapshots_and_batches(options: dict[str, Any]) -> None:
    """A model that is restored in the middle goes on to the bit, and so does one that is fed in other batches."""
    stream, whole = records(), model_of(**options)
    outputs = whole.process(stream).predictions
    cut = model_of(**options)
    found = [each for start in range(0, 300, 37) for each in cut.process(stream[start : start + 37]).predictions]
    assert cut.digest() == whole.digest()
    assert found == outputs
    first = model_of(**options)
    first.process(stream[:170])
    snapshot, restored = encode_snapshot(first), model_of(**options)
    decoder = SnapshotDecoder(restored, pointer(snapshot))
    for message in snapshot.messages:
        decoder.add(message)
    assert restored.process(stream[170:]).predictions == outputs[170:]
    assert restored.digest() == whole.digest()


def test_names() -> None:
    """A view names them by their words, in order, whether the names were noted on the way or are looked for."""
    stream, model = records(), model_of(method="linear", ngrams={"text": 2})
    model.process(stream)
    ngrams = ngrams_of(model.learner.options)
    noted, sought = Names(ngrams=ngrams), Names(ngrams=ngrams)
    for record in stream:
        noted.add(names_in(model._triage._decoder.message(record.payload), ngrams))
    view_model(model, sought, 60)
    logs = MemoryLogs()
    logs.logs[TOPIC, 0] = stream
    wanted = Wanted(0, 300, sought.missing)
    assert find_names(logs, TOPIC, wanted, model._triage._decoder, sought) == frozenset()
    for names in (noted, sought):
        view = view_model(model, names, 60).monomials
        assert view.named == 1.0
        weights = {each.name: each.weight for each in view.top}
        assert weights["text^not^good"] < 0 < weights["text^not^bad"]
        assert weights["text^but^bad"] < 0 < weights["text^but^good"]
        assert "text^good^not" not in weights
        assert all(each.degree == 1 for each in view.top)
