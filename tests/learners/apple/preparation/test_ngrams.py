"""N-grams: which there are by a plain oracle, what they are worth, and that nothing depends on how one cuts."""

import struct
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles import vowpal
from support.restoring import restored

from stream_apple.core.batch import Batch, Limits
from stream_apple.core.ngrams import add_ngrams, ngram_key, ngram_sizes
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation import preparation
from stream_apple.learners.scores import Scores
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_hashing import feature_key, index_key
from stream_apple.records.message.feature_names import names_in

MASK = 2**64 - 1
LIMITS = Limits(1000, 1 << 20, 1e6, -1e9, 1e9, binary=False)
DECODER = Decoder(LIMITS, frozenset({"spaces"}))

SPACES = st.sampled_from(["text", "title", ""])
VALUES = st.sampled_from([1.0, 1.0, 0.5, -2.0, 0.0, 1e-60])
WORDS = st.lists(st.tuples(st.sampled_from(["good", "bad", "movie", "a", "b"]), VALUES), max_size=7)
TEXTS = st.lists(st.tuples(SPACES, WORDS), min_size=1, max_size=4)
SIZES = st.tuples(st.dictionaries(SPACES, st.integers(1, 5), max_size=2), st.integers(1, 4))


def key_by_hand(before: int, feature: int) -> int:
    """The finalizer of splitmix64, in whole numbers."""
    word = (before * 0xD6E8FEB86659FD93 + feature) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return (word ^ (word >> 31)) or 0x9E3779B97F4A7C15


def message_of(text: list[tuple[str, list[tuple[str, float]]]]) -> bytes:
    """An example whose maps may have a key twice, as msgpack allows."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(1)
    packer.pack("features")
    packer.pack_map_header(len(text))
    for space, words in text:
        packer.pack(space)
        packer.pack_map_header(len(words))
        for word, value in words:
            packer.pack(word)
            packer.pack(value)
    found: bytes = packer.bytes()
    return found


def by_hand(
    text: list[tuple[str, list[tuple[str, float]]]], sizes: tuple[dict[str, int], int]
) -> list[tuple[Any, ...]]:
    """Key, value, namespace and name of each feature, as one would say it."""
    features = [(space, word, value) for space, words in text for word, value in words if np.float32(value) != 0]
    shown = {space: f"{space}^" if space else "" for space, _ in text}
    found = [
        (feature_key(word, space), value, feature_key(space) if space else 0, shown[space] + word)
        for space, word, value in features
    ]
    for space, run in groupby(features, lambda feature: feature[0]):
        words = [word for _, word, _ in run]
        for size in range(2, sizes[0].get(space, sizes[1]) + 1):
            for first in range(len(words) - size + 1):
                gram = words[first : first + size]
                key = feature_key(gram[0], space)
                for word in gram[1:]:
                    key = key_by_hand(key, feature_key(word, space))
                found.append((key, 1.0, feature_key(space) if space else 0, shown[space] + "^".join(gram)))
    return found


@settings(deadline=None, max_examples=200, derandomize=True)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5), sizes=SIZES)
def test_each_feature_by_an_oracle(
    texts: list[list[tuple[str, list[tuple[str, float]]]]], sizes: tuple[dict[str, int], int]
) -> None:
    """Of any texts, with names and namespaces that come twice, and zeros between: keys, values, spaces and names."""
    messages = [message_of(text) for text in texts]
    chosen = ngram_sizes(*sizes)
    batch = add_ngrams(DECODER.decode(messages).batch, chosen)
    assert len(batch.indptr) == len(texts) + 1
    for (start, stop), text, message in zip(pairwise(batch.indptr.tolist()), texts, messages, strict=True):
        columns = (batch.keys, batch.values, batch.spaces)
        found = list(zip(*(column[start:stop].tolist() for column in columns), strict=True))
        expected = by_hand(text, sizes)
        assert found == [each[:3] for each in expected]
        named = dict(names_in(message, chosen))
        assert {key: named[key] for key, *_ in expected} == {key: name for key, *_, name in expected}


def test_order_counts() -> None:
    """(a, b) is not (b, a), a longer one is none of its parts, and no key is 0."""
    keys = {name: feature_key(name) for name in "abc"}
    grams = ["ab", "ba", "aa", "bb", "abc", "acb", "bac", "bca", "cab", "cba", "aab", "aba", "baa"]
    found = set(keys.values())
    for gram in grams:
        key = keys[gram[0]]
        for name in gram[1:]:
            key = int(ngram_key(np.uint64(key), np.uint64(keys[name])))
        found.add(key)
    assert len(found) == len(grams) + 3
    undone = (-feature_key("a") * 0xD6E8FEB86659FD93) & MASK
    assert int(ngram_key(np.uint64(feature_key("a")), np.uint64(undone))) == 0x9E3779B97F4A7C15


def test_packed_features_are_of_no_namespace() -> None:
    """In the order of the array, where an index may come twice."""
    indices = [7, 3, 7, 9]
    values = [1.0, 0.5, 2.0, 0.0]
    packed = {"indices": struct.pack("<4Q", *indices), "values": struct.pack("<4f", *values)}
    message = msgpack.packb({"features": packed})
    sizes = ngram_sizes({"": 2}, 1)
    batch = add_ngrams(DECODER.decode([message]).batch, sizes)
    keys = [index_key(index) for index in indices[:3]]
    assert batch.keys.tolist() == [*keys, *(key_by_hand(*pair) for pair in pairwise(keys))]
    assert batch.values.tolist() == [1.0, 0.5, 2.0, 1.0, 1.0]
    assert [dict(names_in(message, sizes))[key] for key in batch.keys.tolist()[3:]] == ["#7^#3", "#3^#7"]


def test_only_batches_that_say_whose_features_are() -> None:
    """Without namespaces nobody knows what is adjacent."""
    batch = Decoder(LIMITS).decode([message_of([("text", [("a", 1.0)])])]).batch
    with pytest.raises(AssertionError, match="expected a batch with spaces"):
        add_ngrams(batch, ngram_sizes({}, 2))


def stream(size: int, seed: int = 5) -> Batch:
    """Whose label is whether "not" stands before the word that counts; every tenth has no label."""
    rng = np.random.default_rng(seed)
    messages = []
    for _ in range(size):
        words = [f"w{n}" for n in rng.choice(12, 3, replace=False)]
        places = rng.permutation(4)[:2]
        for place, word in zip(sorted(places), ("not", "good") if rng.random() < 0.5 else ("good", "not"), strict=True):
            words.insert(place, word)
        messages.append(
            message_of([("text", [(word, 1.0) for word in words]), ("user", [(f"u{rng.integers(3)}", 1.0)])])
        )
    batch = DECODER.decode(messages).batch
    inverted = feature_key("not", "text"), feature_key("good", "text")
    labels = np.array(
        [
            1.0 if any(pair == inverted for pair in pairwise(batch.keys[slice(*span)].tolist())) else -1.0
            for span in pairwise(batch.indptr.tolist())
        ]
    )
    labels[9::10] = np.nan
    owned: dict[str, Any] = {name: column.copy() for name, column in batch._asdict().items()}
    return Batch(**owned | {"labels": labels, "weights": np.ones(size)})


def learned(batch: Batch, chosen: Options, cuts: list[int], epoch: int = 100) -> tuple[Learner, Scores]:
    """The stream in these parts, with an end of an epoch after each so many examples."""
    learner, scores = Learner(chosen), Scores.empty(len(batch.labels))
    for start, stop in pairwise(sorted({0, len(batch.labels), *cuts, *range(0, len(batch.labels), epoch)})):
        learner.learn(batch, start, stop, scores)
        if stop % epoch == 0:
            learner.end_epoch()
    return learner, scores


CHOICES: tuple[dict[str, Any], ...] = (
    {"method": "linear"},
    {"method": "quadratic", "bits": 14},
    {"method": "apple"},
    {"method": "apple", "mixture": False},
    {"method": "linear", "discretise": "spline"},
    {"method": "apple", "loss": "softmax", "classes": 2},
)


@pytest.mark.parametrize("further", CHOICES, ids=str)
def test_batches_and_restored_models(further: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut otherwise, in the smallest portions, or restored in the middle: the same to the bit, and bigrams tell."""
    batch = stream(600)
    if further.get("classes"):
        batch = batch._replace(labels=(batch.labels + 1) / 2)
    given: dict[str, Any] = {"loss": "logistic", "bits": 12, "ngrams": {"text": 2}} | further
    chosen = Options(**given)
    whole, scores = learned(batch, chosen, [])
    monkeypatch.setattr(preparation, "_PORTION", 7)
    pieces, again = learned(batch, chosen, [1, 37, 38, 250, 599])
    assert pieces.digest() == whole.digest()
    assert again.predictions.tolist() == scores.predictions.tolist()
    first, _ = learned(batch.select(np.arange(300)), chosen, [])
    other = restored(first)
    rest, after = batch.select(np.arange(300, 600)), Scores.empty(300)
    for start in range(0, 300, 100):
        other.learn(rest, start, start + 100, after)
        other.end_epoch()
    assert other.digest() == whole.digest()
    assert after.predictions.tolist() == scores.predictions[300:].tolist()
    assert other.predict(rest).tolist() == whole.predict(rest).tolist()
    late = ~np.isnan(batch.labels) & (np.arange(600) >= 400)
    said = scores.predictions if chosen.classes else np.sign(scores.predictions)
    wrong = said != batch.labels
    assert wrong[late].mean() < 0.12


def test_words_alone_do_not_tell() -> None:
    """The stream that bigrams solve is chance without them."""
    batch = stream(600)
    _, scores = learned(batch, Options(method="linear", loss="logistic", bits=12), [])
    labelled = ~np.isnan(batch.labels)
    assert (np.sign(scores.predictions) != batch.labels)[labelled].mean() > 0.25


@pytest.mark.parametrize(("ngrams", "arguments"), [({"text": 2}, ["t2"]), ({"text": 3, "other": 2}, ["t3", "o2"])])
def test_linear_equals_vowpal_wabbit(ngrams: dict[str, int], arguments: list[str], tmp_path: Path) -> None:
    """Its `--ngram`, prediction by prediction: of values that are not 1, an n-gram's is."""
    rng = np.random.default_rng(8)
    lines, messages = [], []
    labels = rng.choice([-1.0, 1.0], 1500)
    for label in labels.tolist():
        text: list[tuple[str, list[tuple[str, float]]]] = []
        for space in ("text", "other", "plain"):
            names = [f"w{number}" for number in rng.choice(40, 6, replace=False)]
            text.append((space, list(zip(names, rng.choice([0.5, 1.0, 3.0], 6).tolist(), strict=True))))
        messages.append(message_of(text))
        words = " ".join(f"|{space} " + " ".join(f"{name}:{value:g}" for name, value in words) for space, words in text)
        lines.append(f"{label:g} {words}\n")
    path = tmp_path / "texts.vw"
    path.write_text("".join(lines))
    given = [each for argument in arguments for each in ("--ngram", argument)]
    theirs = vowpal.run(path, ["-b", "26", "--loss_function", "logistic", *given])
    batch = DECODER.decode(messages).batch._replace(labels=labels, weights=np.ones(1500))
    learner, scores = Learner(Options(method="linear", loss="logistic", bits=16, ngrams=ngrams)), Scores.empty(1500)
    learner.learn(batch, 0, 1500, scores)
    assert learner.evicted == learner.deferred == 0
    assert np.abs(scores.predictions - theirs.predictions).max() < 1e-4
    plain, without = Learner(Options(method="linear", loss="logistic", bits=16)), Scores.empty(1500)
    plain.learn(batch, 0, 1500, without)
    assert np.abs(without.predictions - theirs.predictions).max() > 0.1
