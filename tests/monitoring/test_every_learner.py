"""What shows a model shows one of any learner: the view, `inspect`, metrics, and explanations."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.planted_pair import planted
from support.records import DECODER, SETTINGS, TOPIC

from stream_apple.cli.inspect import command
from stream_apple.learners.apple.options import Options
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.port import GAUGES, LearnerOptions
from stream_apple.learners.tuples.options import TupleOptions
from stream_apple.monitoring.explanation import CONSTANT, REST, ROUNDING, explain_scores, total_of
from stream_apple.monitoring.inspection import view_model
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.metrics import Metrics
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.positions.lineage import Lineage

LEARNERS: dict[str, LearnerOptions] = {
    "apple": Options(loss="squared", bits=12),
    "tuples": TupleOptions(loss="squared", bits=12),
    "hashed": HashedOptions(loss="squared", bits=12),
}
RECORDS = planted(1200)


@pytest.fixture(scope="module", params=LEARNERS)
def model(request: pytest.FixtureRequest) -> PartitionModel:
    """A model of each learner that has learned a stream."""
    settings = SETTINGS._replace(options=LEARNERS[request.param])
    made = PartitionModel(TOPIC, 0, Lineage(0, "0123456789abcdef"), settings, settings.decoder())
    result = made.process(RECORDS)
    assert result.learned == len(RECORDS)
    return made


@pytest.fixture
def names() -> Names:
    """The names in all records."""
    found = Names()
    for record in RECORDS:
        found.add(names_in(record.value()))
    return found


def facts_of(model: PartitionModel, names: Names) -> dict[str, Any]:
    """What the page and `inspect` get."""
    facts: dict[str, Any] = json.loads(json.dumps(view_model(model, names, 10).facts(10), allow_nan=False))
    return facts


def test_a_view_can_be_sent(model: PartitionModel, names: Names) -> None:
    """It says what it is, how full its table is, and what is heaviest, by name as far as names are known."""
    facts = facts_of(model, names)
    assert facts["kind"]
    assert facts["gauges"]["table_slots"] == 4096
    assert len(facts["top"]) == 10
    saliences = [each["salience"] for each in facts["top"]]
    assert saliences == sorted(saliences, reverse=True)
    assert sum(each["monomials"] for each in facts["degrees"]) > 10
    assert facts["named"] == 1.0
    assert all(each["degree"] > 1 for each in facts["products"])


def test_inspect_prints_it(
    model: PartitionModel, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a line on its table, and the losses."""
    facts = facts_of(model, names)
    monkeypatch.setattr("stream_apple.app.inspect.from_file", lambda *_: facts)
    (tmp_path / "model").touch()
    result = CliRunner().invoke(command, ["--file", str(tmp_path / "model")], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert f"  {facts['kind']}, squared loss, 12 bits" in result.output
    assert "of 4,096 slots" in result.output
    assert "Heaviest monomials" in result.output


def test_metrics_have_its_gauges(model: PartitionModel) -> None:
    """Those that have a metric of their own, and all others by name; and counts by degree."""
    metrics, partition = Metrics(), Partition(model, RecoveryPlan(model.lineage, 0))
    partition.enter(State.LIVE)
    metrics.entered(partition, State.LIVE)
    metrics.counted_monomials(partition, model.learner.census())
    metrics.iterated(TimeBudget(Phase), {0: partition}, lambda _: 0, lambda _: RecoveryLeft(0, 0.0))
    for name, value in model.learner.describe().gauges.items():
        series = (name, {}) if name in GAUGES else ("learner_value", {"name": name})
        assert metrics.registry.get_sample_value(PREFIX + series[0], {"partition": "0", **series[1]}) == value
    labels = {"partition": "0", "degree": "1"}
    assert metrics.registry.get_sample_value(f"{PREFIX}monomials", labels) == model.learner.census().monomials[1]


def test_a_score_is_explained_by_name(model: PartitionModel, names: Names) -> None:
    """The contributions sum to the published score to the bit; each feature of the example is one of them."""
    decoded = DECODER.decode([RECORDS[-1].value()])
    row = decoded.batch.select(np.array([0]))
    (found,) = explain_scores(model.learner, names, row)
    assert total_of(found.contributions) == found.score
    assert math.isfinite(found.score)
    shown = {each.name for each in found.contributions}
    assert {CONSTANT, REST} <= shown
    own = [name for key, name in names_in(RECORDS[-1].value()) if key in set(row.keys.tolist())]
    assert all(any(each.startswith(name) for each in shown) for name in own)
    assert not any("?" in name for name in shown - {REST, ROUNDING})
