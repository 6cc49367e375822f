"""Several learners, a shard of the examples each, that become one model: Agarwal et al. 2014, section 3.2 and Table 1.

- Table 1's protocol on real sets: linear and apple, on single features and on bigrams. In the first of five passes each
  shard grows by itself; then the parents of all, and weights averaged after every pass.
- A planted stream in one pass: one learner, and 4 and 8 that are merged at the end of each epoch, or stay apart.

The rows of a set are shuffled. Seconds are of all shards, one after the other, in one process.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from stream_apple.learners.apple.options import Options
from stream_apple.offline.schedule import Schedule
from stream_apple.offline.sharding.lockstep import Exchange
from stream_apple.offline.sharding.sharded import Sharding, evaluate_together
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.experiments.planted_pairs import plant_pairs
from study.preparation import load_set
from study.runs.passes import PassesMeasures, evaluate_in_passes

SHARDS, PASSES, ALPHA, BITS = 8, 5, 0.25, 20
PLANTED_EPOCHS = 12
_PLANTED_ROWS = 4  # times the rows that a set may have

_LINEAR: Mapping[str, Any] = MappingProxyType({"method": "linear"})
_APPLE: Mapping[str, Any] = MappingProxyType({"method": "apple", "mixture": False, "alpha": ALPHA})
_BIGRAMS: Mapping[str, Any] = MappingProxyType({"ngrams": {"*": 2}})
TABLE_1: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"lin": _LINEAR, "lin+apple": _APPLE, "bigram": {**_LINEAR, **_BIGRAMS}, "bigram+apple": {**_APPLE, **_BIGRAMS}}
)
"""The paper's columns: options of the learner."""

PLANTED: Mapping[str, Sharding] = MappingProxyType(
    {
        "one stream": Sharding(1, None),
        "4, apart": Sharding(4, None),
        "4, merged": Sharding(4, Exchange()),
        "8, apart": Sharding(8, None),
        "8, merged": Sharding(8, Exchange()),
    }
)
"""Who learns the planted stream."""

SETS = ("20news", "rcv1-vwsample", "covtype", "census")


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    steps, done = len(inquiry.sets) * len(TABLE_1) * inquiry.seeds, 0
    auc: list[tuple[TableCell, ...]] = []
    seconds: list[tuple[TableCell, ...]] = []
    features: list[tuple[TableCell, ...]] = []
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets", frozenset({"spaces"}))
        found: dict[str, list[PassesMeasures]] = {column: [] for column in TABLE_1}
        for column, given in TABLE_1.items():
            options = Options(mergeable=True, **{"loss": "logistic", "bits": BITS, **given})
            for seed in range(inquiry.seeds):
                inquiry.tell("table 1", done, steps)
                measures, _ = evaluate_in_passes(batch, options, Schedule(seed=seed), SHARDS, PASSES)
                found[column].append(measures)
                done += 1
        means = [_mean(each, "test_auc") for each in found.values()]
        auc.append((name, *means, _in_order(means[:2]), _in_order(means[2:])))
        seconds.append((name, *(_mean(each, "seconds") for each in found.values())))
        features.append((name, *(_mean(each, "features") for each in found.values())))
    inquiry.tell("table 1", steps, steps)
    about = f"{SHARDS} shards, {PASSES} passes, alpha {ALPHA:g}, mean of {inquiry.seeds} splits"
    yield StudyFinding(
        "auc",
        f"Test AUC: {about}",
        ("set", *TABLE_1, "lin < lin+apple", "bigram < bigram+apple"),
        tuple(auc),
        "Internal click data, 100 nodes: 0.81664, 0.81712, 0.81757, 0.81796.",
    )
    yield StudyFinding(
        "seconds", f"Seconds: {about}", ("set", *TABLE_1), tuple(seconds), "On 100 nodes: 1282, 2727, 2755, 7378."
    )
    yield StudyFinding("features", f"Features an example in the last pass: {about}", ("set", *TABLE_1), tuple(features))
    yield _planted(inquiry)


def _mean(found: list[PassesMeasures], name: str) -> float | None:
    """Return the mean of a measure over splits; None if no split has it."""
    known = [value for each in found if (value := getattr(each, name)) is not None]
    return float(np.mean(known)) if known else None


def _in_order(pair: list[float | None]) -> bool | None:
    first, second = pair
    return None if first is None or second is None else first < second


def _planted(inquiry: Inquiry) -> StudyFinding:
    batch = plant_pairs(_PLANTED_ROWS * inquiry.rows, seed=7)
    schedule = Schedule(epochs=PLANTED_EPOCHS, test_fraction=0.0, keep_order=True)
    last = len(batch.labels) // PLANTED_EPOCHS
    rows: list[tuple[TableCell, ...]] = []
    for done, (label, sharding) in enumerate(PLANTED.items()):
        inquiry.tell("planted", done, len(PLANTED))
        cells: list[TableCell] = []
        for options in (Options(mixture=False), Options(mergeable=True)):
            run = evaluate_together(batch, options, schedule, sharding).run
            cells += [run.result.progressive_loss, float(run.scores.losses[-last:].mean())]
        rows.append((label, *cells))
    inquiry.tell("planted", len(PLANTED), len(PLANTED))
    return StudyFinding(
        "planted",
        f"Planted pairs, {len(batch.labels):,} examples, {PLANTED_EPOCHS} epochs: progressive squared loss",
        ("learners", "apple", "apple, last epoch", "mixture", "mixture, last epoch"),
        tuple(rows),
    )


EXPERIMENT = Experiment(_run, SETS)
