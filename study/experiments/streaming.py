"""What a user would pick instead: River, Vowpal Wabbit and the product, on the beginning of streams, nothing tuned."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import Options
from stream_apple.offline import evaluation
from study.data_sets import DataSet
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.methods import installed_version
from study.preparation import load_set
from study.runs import one_pass, river_pass, vowpal
from study.runs.journal import Journal
from study.runs.one_pass import PassMeasures, StreamLearner, pass_over
from study.runs.sources import digest_of_learners, digest_of_modules

EXAMPLES = 8000
_ALL = 1 << 40  # rows of a set: the stream begins with a shuffle of all of them
RIVAL = "River, forest"
"""The most accurate of the streaming libraries' models: what the product is held against."""

PRODUCT: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "product": {"loss": "logistic"},
        "product, squared": {},
        "product, numbers as they are": {"loss": "logistic", "discretise": "none"},
        "quadratic": {"loss": "logistic", "method": "quadratic"},
        "linear": {"loss": "logistic", "method": "linear"},
    }
)
"""The product, a line for each way to set its options; the first is its default for two labels."""

_RIVER = {
    RIVAL: "adaptive-random-forest",
    "River, tree": "hoeffding-adaptive-tree",
    "River, logistic": "scaled-logistic",
}
_VOWPAL = {
    "VW": (),
    "VW, quadratic": ("-q", "::"),
}

SETS = (
    "covtype", "magic04", "letter", "a9a", "adult",
    "abalone-binary", "census", "eeg-eye-state", "eeg-eye-state-std", "mushroom", "poker", "shuttle",
    "titanic",
)  # fmt: skip
"""Two classes, and so few features that River's trees end in time: its single tree takes many minutes for 20news."""


def stream_learners() -> dict[str, StreamLearner]:
    """Return all learners that are installed, by the names of their columns."""
    vowpal = _VOWPAL if installed_version("vowpalwabbit") else {}
    return {
        **{name: StreamLearner(river=model) for name, model in _RIVER.items()},
        **{name: StreamLearner(arguments=arguments) for name, arguments in vowpal.items()},
        **{name: StreamLearner(options=options) for name, options in PRODUCT.items()},
    }


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    learners = stream_learners()
    measures: dict[str, dict[str, list[PassMeasures]]] = {}
    steps, done = len(inquiry.sets) * inquiry.seeds * len(learners), 0
    with Journal(inquiry.out / "runs.jsonl") as journal:
        for name, data_set in inquiry.sets.items():
            found: dict[str, list[PassMeasures]] = {label: [] for label in learners}
            batch = load_set(data_set, _ALL, inquiry.out / "sets")
            for seed in range(inquiry.seeds):
                stream = beginning_of(batch, min(inquiry.rows, EXAMPLES), seed)
                for label, learner in learners.items():
                    inquiry.tell("passes", done, steps)
                    found[label].append(_measured(learner, data_set, stream, seed, journal))
                    done += 1
            measures[name] = found
    inquiry.tell("passes", steps, steps)
    yield from findings_of(measures)


def beginning_of(batch: Batch, examples: int, seed: int) -> Batch:
    """Return the first so many examples of a shuffle of all."""
    order = np.random.default_rng(seed).permutation(len(batch.labels))
    return batch.select(order[:examples])


def _measured(learner: StreamLearner, data_set: DataSet, stream: Batch, seed: int, journal: Journal) -> PassMeasures:
    """Return what the journal has of this pass; if it has none, do the pass, and keep it there."""
    key = _key(learner, data_set, len(stream.labels), seed)
    if key not in journal.records:
        what = {"data_set": data_set.name, "seed": seed, **learner._asdict()}
        journal.add(key, {**what, **pass_over(learner, stream)._asdict()})
    record = journal.records[key]
    return PassMeasures(*(record[name] for name in PassMeasures._fields))


def _key(learner: StreamLearner, data_set: DataSet, examples: int, seed: int) -> str:
    """Return all that the result depends on, as a key."""
    if learner.options is not None:
        learns: list[object] = [asdict(Options(**learner.options)), digest_of_learners()]
        protocol: tuple[ModuleType, ...] = (evaluation, one_pass)
    elif learner.river is not None:
        learns, protocol = [learner.river, installed_version("river")], (river_pass,)
    else:
        learns, protocol = [learner.arguments, installed_version("vowpalwabbit")], (one_pass, vowpal)
    content = hashlib.sha256(data_set.path.read_bytes()).hexdigest()
    parts = [learns, digest_of_modules(protocol), content, examples, seed]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


_Measures = Mapping[str, Mapping[str, list[PassMeasures]]]
"""Set -> learner -> a pass for each seed."""


def findings_of(measures: _Measures) -> Iterator[StudyFinding]:
    """Yield the tables: errors, examples a second, memory."""
    yield _errors_table(measures)
    yield _rates_table(measures)
    yield _memory_table(measures)


def _means(
    measures: _Measures, mean: Callable[[list[float]], np.floating[Any]], value: Callable[[PassMeasures], float]
) -> dict[str, dict[str, float]]:
    """Return set -> learner -> the mean of a value over its passes."""
    return {
        name: {label: float(mean([value(each) for each in passes])) for label, passes in found.items()}
        for name, found in measures.items()
    }


def _errors_table(measures: _Measures) -> StudyFinding:
    errors = _means(measures, np.mean, lambda each: each.error)
    labels = _labels(measures)
    seeds = len(next(iter(next(iter(measures.values())).values())))
    rows: list[tuple[TableCell, ...]] = [(name, *row.values()) for name, row in errors.items()]
    level = {label: sum(row[label] <= row[RIVAL] for row in errors.values()) for label in labels}
    told = (None if label == RIVAL else f"{count} of {len(errors)}" for label, count in level.items())
    rows.append((f"at or below {RIVAL}", *told))
    return StudyFinding(
        "errors",
        f"Progressive error of the first {EXAMPLES:,} examples, nothing tuned, mean of {seeds} shuffles",
        ("set", *labels),
        tuple(rows),
        "River's forest: covtype 0.282, magic04 0.171, letter 0.153, a9a 0.189, adult 0.186.",
    )


def _rates_table(measures: _Measures) -> StudyFinding:
    rates = _means(measures, np.median, lambda each: each.examples / each.seconds)
    labels = _labels(measures)
    faster = [min(row[label] / row[RIVAL] for row in rates.values()) for label in labels]
    rows: list[tuple[TableCell, ...]] = [(name, *(round(rate) for rate in row.values())) for name, row in rates.items()]
    rows.append((f"least, over {RIVAL}", *(f"{times:,.1f}" for times in faster)))
    return StudyFinding(
        "rates",
        "Examples a second; the product's is of the quickest of three passes",
        ("set", *labels),
        tuple(rows),
        "River's forest about 1,000 a second.",
    )


def _memory_table(measures: _Measures) -> StudyFinding:
    first = next(iter(measures.values()))
    measured = [label for label in first if first[label][0].megabytes is not None]
    return StudyFinding(
        "memory",
        "Megabytes of a model: River's, by which its process has grown; the product's, of a table that is full",
        ("set", *measured),
        tuple(
            (name, *(max(each.megabytes or 0.0 for each in found[label]) for label in measured))
            for name, found in measures.items()
        ),
    )


def _labels(measures: _Measures) -> tuple[str, ...]:
    return tuple(next(iter(measures.values())))


EXPERIMENT = Experiment(_run, SETS, ("river",))
