"""Models of users, and of features that share slots, on a partition: from records to snapshots, views and names."""

import random
from dataclasses import replace
from typing import Any

import pytest
from stream.verification.published_logs import MemoryLogs
from support.records import HOUR, SETTINGS, START, TOPIC, FakeRecord
from support.snapshots import pointer

from stream_apple.core.codec.example import Example, encode_example
from stream_apple.core.codec.feature_hashing import feature_key, user_key
from stream_apple.core.codec.feature_names import Names, name_of_user, names_in
from stream_apple.learners.apple.options import Options
from stream_apple.monitoring.inspection import ModelView, view_model
from stream_apple.monitoring.name_search import Wanted, find_names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot

USERS = ("ann", "bob", "eve")
CASES: tuple[dict[str, Any], ...] = (
    {"method": "linear", "personalise": "user"},
    {"method": "quadratic", "personalise": "key"},
    {"method": "apple", "personalise": "key"},
    {"method": "apple", "personalise": "user", "combine": "off"},
    {"method": "apple", "personalise": "user", "discretise": "auto", "reservoir": 20},
)


def records(count: int = 400) -> list[FakeRecord]:
    """Over six hours; eve means by each word the opposite of what the others do. Every tenth has no key."""
    draw = random.Random(7)
    found = []
    for at in range(count):
        user, words = draw.choice(USERS), draw.sample(range(8), 3)
        label = sum(word - 3.5 for word in words) * (-1 if user == "eve" else 1)
        features = {"user": {user: 1.0}, "word": {f"w{word}": 1.0 for word in words}}
        payload = encode_example(Example(label, 1.0, None, features))
        key = None if at % 10 == 9 else user.encode()
        found.append(FakeRecord(0, at, payload, START + at * 6 * HOUR // count, key))
    return found


def model_of(**options: Any) -> PartitionModel:
    """One that has learned nothing, with a decoder of what it needs."""
    settings = SETTINGS._replace(options=replace(Options(**options), bits=12))
    return PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), settings, settings.decoder())


def seen(model: PartitionModel, names: Names, top: int = 60) -> ModelView:
    """The view of the model."""
    return view_model(model, names, top)


@pytest.mark.parametrize("options", CASES)
def test_snapshots_and_batches(options: dict[str, Any]) -> None:
    """A model that is restored in the middle goes on to the bit, and so does one that is fed in other batches."""
    stream, whole = records(), model_of(**options)
    outputs = whole.process(stream).predictions
    cut = model_of(**options)
    found = [each for start in range(0, 400, 37) for each in cut.process(stream[start : start + 37]).predictions]
    assert cut.digest() == whole.digest()
    assert found == outputs
    first = model_of(**options)
    first.process(stream[:230])
    snapshot, restored = encode_snapshot(first), model_of(**options)
    decoder = SnapshotDecoder(restored, pointer(snapshot))
    for message in snapshot.messages:
        decoder.add(message)
    assert restored.process(stream[230:]).predictions == outputs[230:]
    assert restored.digest() == whole.digest()


def test_users_come_from_keys() -> None:
    """A record without a key has no weights of its own, and the same key is the same user."""
    stream = records(50)
    model = model_of(method="linear", personalise="key")
    model.process(stream)
    keys = set(model.learner.slots()["key"].tolist())
    assert {user_key(user.encode()) for user in USERS} <= keys
    word, ann = feature_key("w1", "word"), user_key(b"ann")
    assert (word + ann) % 2**64 in keys
    shared = model_of(method="linear")
    shared.process(stream)
    assert shared.learner.occupied == 11
    assert model.learner.occupied > 11 + 3 + 20


@pytest.mark.parametrize("by", ["user", "key"])
def test_personal_weights_have_both_names(by: str) -> None:
    """A view says whose weight for which word it is; what nobody has seen is `?` and the key."""
    stream, model, names = records(), model_of(method="linear", personalise=by), Names()
    model.process(stream)
    blind = seen(model, names).monomials
    assert blind.named == 0.0
    assert all(factor.startswith("?") for each in blind.top for factor in each.factors)
    pairs = {each.key for each in blind.top if len(each.factors) == 2}
    assert len(pairs) > 20, "they are taken apart by the table alone"
    for record in stream:
        names.add(names_in(record.payload))
        names.add(name_of_user(record.named) if by == "key" else ())
    view = seen(model, names).monomials
    assert view.named == 1.0
    user = "key=eve" if by == "key" else "user^eve"
    by_name = {each.name: each for each in view.top}
    own = by_name[f"{user} \u00d7 word^w0"]
    assert own.factors == (user, "word^w0")
    assert own.weight > 0 > by_name["word^w0"].weight
    assert by_name[user].factors == (user,)
    assert {each.degree for each in view.top} == {1}
    assert {each.key for each in view.top if len(each.factors) == 2} == pairs


@pytest.mark.parametrize("by", ["user", "key"])
def test_names_are_found_in_the_topic(by: str) -> None:
    """After a restart: users by key have theirs in the keys of the records."""
    stream, model, names = records(), model_of(method="linear", personalise=by), Names()
    model.process(stream)
    seen(model, names)
    logs = MemoryLogs()
    logs.logs[TOPIC, 0] = stream
    left = find_names(logs, TOPIC, Wanted(0, 400, names.missing), model._triage._decoder, names)
    assert left == frozenset()
    assert seen(model, names).monomials.named == 1.0


def test_a_user_s_weight_whose_user_is_forgotten() -> None:
    """The name alone is enough to take it apart; without it, it stays a key."""
    model, names = model_of(method="linear", personalise="user"), Names()
    model.process(records())
    slots, eve = model.learner.table.slots, feature_key("eve", "user")
    own = (eve + feature_key("w0", "word")) % 2**64
    slots["key"][slots["key"] == eve] = 12345  # another has its slot
    named = {each.key: each.factors for each in seen(model, names).monomials.top}
    assert named[f"{own:016x}"] == (f"?{own:016x}",)
    names.add([(eve, "user^eve")])
    named = {each.key: each.factors for each in seen(model, names).monomials.top}
    assert named[f"{own:016x}"][0] == "user^eve"
