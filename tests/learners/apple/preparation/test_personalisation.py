"""Users' own weights: what they are made of, what they do to scores, and that nothing depends on how one cuts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare

from stream_apple.core.batch import ALONE, BIN, TOO_LARGE, Batch
from stream_apple.core.codec.feature_hashing import feature_key, user_key
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation import preparation
from stream_apple.learners.apple.preparation.personalisation import UserFeatures
from stream_apple.learners.scores import Scores

MASK = 2**64 - 1
METHODS: tuple[tuple[Any, Any, Any], ...] = (
    ("linear", "logistic", "off"),
    ("quadratic", "squared", "off"),
    ("cubic", "logistic", "off"),
    ("apple", "squared", "off"),
    ("apple", "logistic", "mix"),
)
INTERVALS = {"personalise": "user", "discretise": "quantile", "reservoir": 80}
Features = dict[tuple[str, str], float]


def batch_of(rows: list[Features], labels: list[float], users: Sequence[str | None] | None = None) -> Batch:
    """Examples by (namespace, name); `users` are the keys of their records."""
    names = [name for row in rows for name in row]
    return Batch(
        np.cumsum([0, *map(len, rows)]),
        np.array([feature_key(name, space) for space, name in names], np.uint64),
        np.array([value for row in rows for value in row.values()], np.float32),
        np.array(labels),
        np.ones(len(rows)),
        np.array([feature_key(space) if space else 0 for space, _ in names], np.uint64),
        np.array([feature_key(name, space) for space, name in names], np.uint64),
        np.array([0 if user is None else user_key(user.encode()) for user in users or [None] * len(rows)], np.uint64),
    )


def stream(size: int, seed: int = 3, *, numeric: bool = False) -> Batch:
    """Of five users, two of which mean by a word the opposite of what the others do."""
    rng = np.random.default_rng(seed)
    rows: list[Features] = []
    labels, users = [], []
    for _ in range(size):
        count = 5 if numeric else 3  # numbers that fewer than half of the examples have would pass for words
        user, words = int(rng.integers(5)), rng.choice(9, count, replace=False).tolist()
        values = rng.normal(size=count) if numeric else rng.choice([1.0, 0.5, -2.0], count)
        rows.append({("user", f"u{user}"): 1.0} | {("word", f"w{w}"): v for w, v in zip(words, values, strict=True)})
        total = sum((w - 4.2) * v for w, v in zip(words, values.tolist(), strict=True))
        labels.append(float(np.sign(total)) * (-1 if user < 2 else 1))
        users.append(f"u{user}")
    return batch_of(rows, labels, users)


def by_hand(batch: Batch, by: str, keys: dict[tuple[int, int], int] | None = None) -> Batch:
    """The batch with its products spelled out, as ALONE features with these keys."""
    columns: list[list[Any]] = [[0], [], [], []]
    for row in range(len(batch.labels)):
        span = slice(*batch.indptr[row : row + 2].tolist())
        whole = list(zip(*(column[span].tolist() for column in (batch.keys, batch.values, batch.spaces)), strict=True))
        own = [(key, value) for key, value, space in whole if by != "key" and space == feature_key(by)]
        others = [(key, value) for key, value, space in whole if by == "key" or space != feature_key(by)]
        if by == "key" and batch.users[row]:
            own = [(int(batch.users[row]), 1.0)]
        made = [
            pair
            for user, x in own
            for pair in (
                (user, x),
                *(
                    (keys[user, key] if keys else (user + key) & MASK, float(np.float32(x) * np.float32(v)))
                    for key, v in others
                ),
            )
        ]
        columns[1] += [key for key, _ in others + made]
        columns[2] += [value for _, value in others + made]
        columns[3] += [0] * len(others) + [int(ALONE)] * len(made)
        columns[0].append(len(columns[1]))
    indptr, found, values, roles = columns
    return Batch(
        np.array(indptr), np.array(found, np.uint64), np.array(values, np.float32), batch.labels, batch.weights,
        roles=np.array(roles, np.uint8),
    )  # fmt: skip


def options(method: Any, loss: Any, combine: Any, **further: Any) -> Options:
    """Of a table with room for all."""
    return bare(method=method, loss=loss, combine=combine, bits=14, **further)


def learned(batch: Batch, chosen: Options, cuts: list[int], epoch: int = 50) -> tuple[Learner, Scores]:
    """The stream, learned in these parts, with an end of an epoch after each so many examples."""
    learner, scores = Learner(chosen), Scores.empty(len(batch.labels))
    bounds = sorted({0, len(batch.labels), *cuts, *range(0, len(batch.labels), epoch)})
    for start, stop in pairwise(bounds):
        learner.learn(batch, start, stop, scores)
        if stop % epoch == 0:
            learner.end_epoch()
    return learner, scores


@pytest.mark.parametrize("by", ["user", "key"])
def test_products_are_those_written_by_hand(by: str) -> None:
    """Keys, values and roles of every row: shared ones as they came, then each user with its products."""
    batch = stream(40)
    (found, truncated), expected = UserFeatures(by, 1000).add(batch), by_hand(batch, by)
    assert not truncated.any()
    for name in ("indptr", "keys", "values", "roles"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    at = int(expected.indptr[0])
    others = 4 if by == "key" else 3
    attributes = found.attributes[at : at + 2 * others + 1].tolist()
    user = user_key(b"") if others == 0 else attributes[others]
    assert attributes[others + 1 :] == [(user + each) & MASK for each in attributes[:others]]


@pytest.mark.parametrize(("method", "loss", "combine"), METHODS)
def test_as_if_products_were_features_of_the_message(method: Any, loss: Any, combine: Any) -> None:
    """A producer that writes `u^w` itself, under names of its own, gets the same scores (an oracle: other keys)."""
    batch = stream(400)
    _, scores = learned(batch, options(method, loss, combine, personalise="user"), [])
    named = {
        (user, word): feature_key(f"u{u}^w{w}")
        for u in range(5)
        for w in range(9)
        for user, word in [(feature_key(f"u{u}", "user"), feature_key(f"w{w}", "word"))]
    }
    spelled = by_hand(batch, "user", named)
    # No feature is of the users' namespace, so that nothing is made of any.
    spelled = spelled._replace(spaces=np.zeros_like(spelled.keys))
    _, other = learned(spelled, options(method, loss, combine, personalise="user"), [])
    assert np.allclose(scores.predictions, other.predictions, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("method", "loss", "combine"), METHODS)
def test_a_user_without_history_gets_the_shared_score(method: Any, loss: Any, combine: Any) -> None:
    """The same words score the same for two strangers and for nobody, and not for one who is known."""
    learner, _ = learned(stream(400), options(method, loss, combine, personalise="user"), [])
    words: Features = {("word", "w1"): 1.0, ("word", "w8"): 0.5}
    users: list[Features] = [{}, {("user", "x"): 1.0}, {("user", "y"): 1.0}, {("user", "u0"): 1.0}]
    nobody, *strangers, known = learner.predict(batch_of([words | user for user in users], [1.0] * 4)).tolist()
    assert [nobody] * 2 == strangers
    assert known != nobody


def test_users_differ() -> None:
    """Whom the shared weights fail is served by weights of his own: the loss on the second half falls by a third."""
    batch = stream(3000)
    losses = {
        by: learned(batch, options("linear", "logistic", "off", personalise=by), [], 500)[1].losses[1500:].mean()
        for by in ("", "user", "key")
    }
    assert losses["user"] < 0.67 * losses[""]
    assert losses["key"] < 0.67 * losses[""]


@pytest.mark.parametrize(("method", "loss", "combine"), METHODS)
@pytest.mark.parametrize("further", [{"personalise": "user"}, {"personalise": "key"}, INTERVALS])
def test_nothing_depends_on_cuts(method: Any, loss: Any, combine: Any, further: dict[str, Any]) -> None:
    """Digests and scores are the same, however the stream is cut into batches, and by a model restored anywhere."""
    batch = stream(200, numeric="discretise" in further)
    chosen = options(method, loss, combine, max_features_per_example=20, **further)
    whole, scores = learned(batch, chosen, [])
    cut, parts = learned(batch, chosen, [1, 2, 33, 34, 99, 151])
    assert cut.digest() == whole.digest()
    assert parts.predictions.tobytes() == scores.predictions.tobytes()
    for at in (37, 50, 120):
        first, _ = learned(batch.select(np.arange(at)), chosen, [])
        restored = Learner(chosen)
        pairs: Any = zip(restored.table, first.table, strict=True)
        for own, given in pairs:
            own[:] = given
        restored.restore(first.sums)
        for start, stop in ((at, 50), (max(at, 50), 100), (max(at, 100), 150), (150, 200)):
            if start < stop:
                restored.learn(batch, start, stop, parts)
                restored.end_epoch()
        assert restored.digest() == whole.digest()


def test_values_become_intervals_before_they_are_personal() -> None:
    """Each user has copies of intervals, which are ALONE as the user is; what was cut is as without users."""
    batch = stream(200, numeric=True)
    learner, _ = learned(batch, options("linear", "squared", "off", **INTERVALS), [])
    shared, _ = learned(batch, options("linear", "squared", "off", discretise="quantile", reservoir=80), [])
    prepared = learner.preparation.prepare(batch)
    spans = prepared.indptr[:-1], prepared.indptr[1:]
    assert (prepared.roles == BIN).any()
    user = feature_key("user")
    for row, (start, stop) in enumerate(zip(*map(np.ndarray.tolist, spans), strict=True)):
        keys, roles = prepared.keys[start:stop].tolist(), prepared.roles[start:stop].tolist()
        at = slice(*batch.indptr[row : row + 2].tolist())
        (own,) = batch.keys[at][batch.spaces[at] == user].tolist()
        place = keys.index(own)
        assert keys[place + 1 :] == [(own + key) & MASK for key in keys[:place]]
        assert set(roles[place:]) == {int(ALONE)}
        assert int(ALONE) not in roles[:place]
    cut, alone = learner.preparation.intervals, shared.preparation.intervals
    words = np.isin(cut.features, alone.features)
    assert words.all()


def test_memory_is_bounded_by_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the parts are that are prepared at once, scores and digest stay."""
    batch, chosen = stream(200), options("quadratic", "squared", "off", personalise="user")
    whole, scores = learned(batch, chosen, [])
    tested = whole.score(batch)
    sizes: list[int] = []
    original = UserFeatures.add

    def noted(self: UserFeatures, part: Batch) -> tuple[Batch, NDArray[np.bool_]]:
        sizes.append(len(part.labels))
        return original(self, part)

    monkeypatch.setattr(UserFeatures, "add", noted)
    monkeypatch.setattr(preparation, "_PORTION", 30)
    cut, parts = learned(batch, chosen, [])
    assert cut.digest() == whole.digest()
    assert parts.predictions.tobytes() == scores.predictions.tobytes()
    assert whole.score(batch).predictions.tobytes() == tested.predictions.tobytes()
    assert max(sizes) < 8
    assert sum(sizes) == 400


def test_what_overflows_or_underflows_is_no_product() -> None:
    """As in an expansion; nor is one whose keys sum to that of the constant."""
    big, small = float(np.nextafter(TOO_LARGE, np.float32(0))), 1e-30
    word = feature_key("w", "word")
    batch = batch_of([{("user", "a"): big, ("user", "b"): small, ("word", "w"): 4.0, ("word", "v"): 1e-30}], [1.0])
    found = UserFeatures("user", 100).add(batch)[0]
    a, b, v = feature_key("a", "user"), feature_key("b", "user"), feature_key("v", "word")
    assert found.keys.tolist() == [word, v, a, (a + v) & MASK, b, (b + word) & MASK]
    opposite = batch._replace(keys=np.array([MASK + 1 - word, b, word, v], np.uint64), values=np.ones(4, np.float32))
    assert 0 not in UserFeatures("user", 100).add(opposite)[0].keys.tolist()
    learner = Learner(options("linear", "squared", "off", personalise="user"))
    learner.learn(batch, 0, 1, Scores.empty(1))
    assert np.isfinite(learner.slots()["weight"]).all()


@pytest.mark.parametrize(("most", "made", "truncated"), [(9, 8, False), (8, 5, True), (5, 2, True), (3, 2, True)])
def test_an_example_has_so_many_features_and_no_more(most: int, made: int, truncated: bool) -> None:  # noqa: FBT001
    """The constant counts; of a user whose products no longer fit there are none, and that is counted, once learned."""
    row: Features = {("user", "a"): 1.0, ("word", "w"): 1.0, ("user", "b"): 1.0, ("word", "v"): 1.0}
    batch = batch_of([row, row], [1.0, float("nan")])
    found, cut = UserFeatures("user", most).add(batch)
    assert np.diff(found.indptr).tolist() == [made] * 2
    assert cut.tolist() == [truncated] * 2
    learner = Learner(bare(method="linear", bits=8, personalise="user", max_features_per_example=most))
    learner.learn(batch, 0, 2, Scores.empty(2))
    learner.predict(batch)
    assert learner.truncated == int(truncated)
    assert learner.preparation.arrays["users_truncated"].tolist() == [int(truncated)]


def test_an_example_that_is_too_long_itself_counts_once() -> None:
    """Its expansion stops before its first feature: nothing was left out before."""
    batch = batch_of([{("user", "a"): 1.0, ("word", "w"): 1.0, ("word", "v"): 1.0}], [1.0])
    learner = Learner(bare(method="linear", bits=8, personalise="user", max_features_per_example=2))
    learner.learn(batch, 0, 1, Scores.empty(1))
    assert (learner.truncated, learner.preparation.truncated) == (1, 0)


def test_roles_and_rows_without_users() -> None:
    """What was said of features before stays; an example without user, key or features has none of its own."""
    batch = batch_of([{("word", "w"): 2.0}, {}, {("user", "a"): 3.0}], [1.0] * 3, ["k", None, None])
    batch = batch._replace(roles=np.array([int(BIN), 0], np.uint8))
    by_space = UserFeatures("user", 100).add(batch)[0]
    assert by_space.indptr.tolist() == [0, 1, 1, 2]
    assert by_space.roles.tolist() == [int(BIN), int(ALONE)]
    by_key = UserFeatures("key", 100).add(batch)[0]
    assert by_key.indptr.tolist() == [0, 3, 3, 4]
    assert by_key.values.tolist() == [2.0, 1.0, 2.0, 3.0]
    assert by_key.roles.tolist() == [int(BIN), int(ALONE), int(ALONE), 0]


@pytest.mark.parametrize(("by", "column"), [("user", "spaces"), ("key", "users")])
def test_a_batch_without_the_columns_is_refused(by: str, column: str) -> None:
    """A decoder that was not told would leave every user without weights, in silence."""
    chosen = bare(personalise=by)
    assert chosen.wanted_columns() == {column}
    batch = stream(3)._replace(spaces=np.empty(0, np.uint64), users=np.empty(0, np.uint64))
    with pytest.raises(AssertionError, match=f"expected a batch with {column}"):
        Learner(chosen).predict(batch)


def test_options() -> None:
    """Off is no part of a model's name; memory counts what is made at once."""
    assert "personalise" not in bare().identity()
    assert bare(personalise="user").identity()["personalise"] == "user"
    assert bare().wanted_columns() == frozenset()
    assert bare(personalise="user").model_bytes() > bare().model_bytes()
