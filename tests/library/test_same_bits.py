"""The same examples give the same scores, to the bit, whichever way they come to the learner."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import FakeRecord

from stream_apple import AppleClassifier, AppleRegressor
from stream_apple.app.model_factories import onlooker_factory
from stream_apple.config import Config
from stream_apple.core.batch import Limits
from stream_apple.library.featurizer import Featurizer
from stream_apple.library.one_row import OneRow
from stream_apple.library.online import OnlineLearner
from stream_apple.offline.dataset import read_batch
from stream_apple.offline.evaluation import evaluate
from stream_apple.offline.schedule import Schedule
from stream_apple.river import AppleClassifier as RiverClassifier
from stream_apple.river import AppleRegressor as RiverRegressor
from stream_apple.stream.positions.lineage import Provenance

ROWS, EPOCH = 160, 60
LIMITS = Limits(10_000, 1 << 20, 1e6, -1e9, 1e9, binary=False)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"method": "linear"},
    {"method": "quadratic", "bits": 12},
    {"mixture": False},
    {"discretise": "none"},
    {"learning_rate": 0.1},
]

CASES = [(loss, chosen) for loss in ("squared", "logistic", "softmax") for chosen in SETTINGS]


def table(loss: str, seed: int) -> tuple[pd.DataFrame, list[float]]:
    """Numbers, some of them missing, texts and truths, and labels."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.normal(size=ROWS).round(3),
            "city": draw.choice(["Rome", "Oslo", "Wien"], ROWS),
            "new": draw.random(ROWS) > 0.5,
            "price": np.where(draw.random(ROWS) > 0.3, draw.integers(0, 5, ROWS), np.nan),
        }
    )
    signal = frame["age"] * (frame["city"] == "Rome") + draw.normal(size=ROWS) / 4
    if loss == "softmax":
        return frame, pd.cut(signal, [-9, -0.2, 0.2, 9], labels=False).astype(float).tolist()
    return frame, (signal.round(3) if loss == "squared" else np.where(signal > 0, 1.0, -1.0)).tolist()


def as_maps(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as producers have them: what is missing is not there, and a truth is a category."""
    return [
        {
            name: ("true" if cell else "false") if isinstance(cell, bool) else cell
            for name, cell in zip(frame.columns, row, strict=True)
            if cell == cell  # noqa: PLR0124  NaN is missing
        }
        for row in frame.astype(object).itertuples(index=False, name=None)
    ]


def by_evaluate(path: Path, rows: list[dict[str, Any]], labels: list[float], options: Any) -> list[float]:
    """The scores that `evaluate` gives, of a file."""
    file = path / "rows.jsonl"
    lines = [json.dumps({"label": y, "features": x}) for x, y in zip(rows, labels, strict=True)]
    file.write_text("\n".join(lines))
    batch = read_batch([file], LIMITS, columns=options.wanted_columns())
    ends = tuple(range(EPOCH, len(rows), EPOCH))
    schedule = Schedule(test_fraction=0.0, keep_order=True, ends=ends)
    scores: list[float] = evaluate(batch, options, schedule).scores.predictions.tolist()
    return scores


def by_worker(rows: list[dict[str, Any]], labels: list[float], options: dict[str, Any]) -> list[float]:
    """The predictions that a worker's model publishes: an epoch is a minute, and an example a second."""
    config = Config.model_validate(
        {"learner": options, "epochs": {"length": f"{EPOCH}s"}, "limits": {"min_label": -1e6}}
    )
    model = onlooker_factory(config)(0, Provenance.of(config).lineage(0, 0))
    records = [
        FakeRecord(0, offset, msgpack.packb({"label": y, "features": x}), 1000 * (offset + EPOCH * 1000))
        for offset, (x, y) in enumerate(zip(rows, labels, strict=True))
    ]
    found: list[float] = []
    for start in range(0, len(records), 37):
        found += [
            msgpack.unpackb(each)["prediction"] for each in model.process(records[start : start + 37]).predictions
        ]
    return found


def online(kind: Callable[..., Any], chosen: dict[str, Any]) -> Any:
    """An estimator of scikit-learn that has seen nothing, with epochs of the same length."""
    return kind(epoch_examples=EPOCH, **chosen)


def scored_before(estimator: Any, frame: Any, labels: list[float], cuts: list[int], loss: str) -> list[float]:
    """The score of each row before it is learned, batch by batch, as the learner gives it."""
    found: list[float] = []
    for start, stop in zip([0, *cuts], [*cuts, len(labels)], strict=True):
        if start == stop:
            continue
        y = np.array(labels[start:stop])
        before = estimator.__dict__.get("_online")
        assert before is None or before.seen == start
        scores = capture(estimator)
        if loss == "squared":
            estimator.partial_fit(frame[start:stop], y)
        else:
            estimator.partial_fit(frame[start:stop], y, classes=[0.0, 1.0, 2.0] if loss == "softmax" else [-1.0, 1.0])
        found += scores
        estimator.__dict__.pop("_learn_rows", None)
    return found


def capture(estimator: Any) -> list[float]:
    """Note what the learner says of each example that it is given."""
    found: list[float] = []

    def learn_rows(batch: Any, labels: Any, weights: Any) -> None:
        scores = estimator._online.learn(batch._replace(labels=labels, weights=weights))
        found.extend(scores.predictions.tolist())

    estimator.__dict__["_learn_rows"] = learn_rows
    return found


@pytest.mark.parametrize(("loss", "chosen"), CASES, ids=[f"{loss}-{chosen}" for loss, chosen in CASES])
def test_all_ways_agree(tmp_path: Path, loss: str, chosen: dict[str, Any]) -> None:
    """`partial_fit` on two kinds of frames and on maps, `evaluate`, and a worker's model."""
    frame, labels = table(loss, 1)
    frame["new"] = frame["new"].map({True: "true", False: "false"})
    rows = as_maps(frame)
    classes = {"classes": 3} if loss == "softmax" else {}
    kind: Callable[..., Any] = AppleRegressor if loss == "squared" else AppleClassifier
    expected = by_worker(rows, labels, {"loss": loss, **classes, **chosen})
    first = online(kind, chosen)
    found = scored_before(first, frame, labels, [1, 2, 50, 120], loss)
    assert found == expected
    assert scored_before(online(kind, chosen), pl.from_pandas(frame), labels, [90], loss) == expected
    assert scored_before(online(kind, chosen), rows, labels, [7], loss) == expected
    assert by_evaluate(tmp_path, rows, labels, first._online.options) == expected


@settings(max_examples=8)
@given(
    case=st.sampled_from(CASES),
    cuts=st.lists(st.integers(0, ROWS), max_size=6).map(sorted),
    seed=st.integers(0, 5),
)
def test_it_does_not_matter_how_a_stream_is_cut(case: tuple[str, dict[str, Any]], cuts: list[int], seed: int) -> None:
    """One example at a time, through River's interface, and any batches through scikit-learn's."""
    loss, chosen = case
    frame, labels = table(loss, seed)
    kind: Callable[..., Any] = AppleRegressor if loss == "squared" else AppleClassifier
    batches = online(kind, chosen)
    scores = scored_before(batches, frame, labels, cuts, loss)
    if loss == "squared":
        one: Any = RiverRegressor(epoch_examples=EPOCH, sort_names=False, **chosen)
    else:
        classes = [0.0, 1.0, 2.0] if loss == "softmax" else [-1.0, 1.0]
        one = RiverClassifier(classes=classes, epoch_examples=EPOCH, sort_names=False, **chosen)
    rows = frame.astype(object).to_dict("records")
    model, found = one._model, []
    for x, y in zip(rows, labels, strict=True):
        before = model.online.seen
        if loss == "logistic" and before % EPOCH:  # at an epoch's end the model grows when the next example comes
            assert model.score(x) == scores[before]
        found.append(model.learn(x, y, 1.0))
        assert model.online.seen == before + 1
    assert found == scores
    assert one._model.online.learner.digest() == batches._online.learner.digest()


def test_a_model_is_pickled_to_the_bit() -> None:
    """And learns on as it would have."""
    import pickle

    frame, labels = table("logistic", 3)
    featurizer = Featurizer()
    first = AppleClassifier(epoch_examples=EPOCH).partial_fit(frame[:100], labels[:100], classes=[-1.0, 1.0])
    second = pickle.loads(pickle.dumps(first))
    assert second._online.learner.digest() == first._online.learner.digest()
    for each in (first, second):
        each.partial_fit(frame[100:], labels[100:])
    assert second._online.learner.digest() == first._online.learner.digest()
    assert np.array_equal(second.predict_proba(frame), first.predict_proba(frame))
    row = OneRow(OnlineLearner(first._online.options), featurizer, sort_names=False)
    assert row.score({"age": 1.0}) == 0.0


def test_threads_may_ask_one_model_at_once() -> None:
    """Scoring writes to the scratch of the learner: each thread gets its own scores all the same."""
    frame, labels = table("logistic", 2)
    many = pd.concat([frame] * 20, ignore_index=True)
    model = AppleClassifier(method="quadratic", bits=12).fit(frame, labels)
    expected = model.decision_function(many)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.decision_function(many), range(12)))
    assert all(np.array_equal(each, expected) for each in found)


def learn_scikit(model: Any, label: int) -> None:
    """Learn one row by scikit-learn's interface."""
    known = {"classes": [0, 1]} if isinstance(model, AppleClassifier) else {}
    model.partial_fit(pd.DataFrame({"a": [1.0]}), [label], **known)


def learn_river(model: Any, label: int) -> None:
    """Learn one row by River's interface."""
    model.learn_one({"a": 1.0}, label)


@pytest.mark.parametrize(
    ("kind", "learn"),
    [
        (AppleClassifier, learn_scikit),
        (AppleRegressor, learn_scikit),
        (RiverClassifier, learn_river),
        (RiverRegressor, learn_river),
    ],
    ids=["classifier", "regressor", "river-classifier", "river-regressor"],
)
def test_threads_begin_one_model(
    kind: type, learn: Callable[[Any, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one learns for the first time while the first one makes the model: what both have learned counts."""
    others: list[Thread] = []
    model = kind(bits=10, method="linear")

    def interrupted(*arguments: Any) -> OnlineLearner:
        if not others:
            others.append(Thread(target=learn, args=(model, 0)))
            others[0].start()
            others[0].join(0.2)  # it waits for this thread
        return OnlineLearner(*arguments)

    for module in ("estimators", "river_models"):
        monkeypatch.setattr(f"stream_apple.library.{module}.OnlineLearner", interrupted)
    learn(model, 1)
    others[0].join()
    online = model._online if learn is learn_scikit else model._model.online
    assert online.seen == 2
