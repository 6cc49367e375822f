"""What `evaluate --shards` computes is what a worker's partitions come to: every score and model, to the last bit."""

import math
from typing import Literal

import msgpack
import numpy as np
import pytest
from simulation.process import TOPICS, Process
from simulation.world import outputs_of
from stream.merging.cluster_of_rounds import SETUP, cluster_of, finish
from stream.merging.lockstep import hourly
from support.records import DECODER

from stream_apple.offline.event_epochs import deal_by_time
from stream_apple.offline.schedule import Schedule
from stream_apple.offline.sharding.lockstep import Exchange
from stream_apple.offline.sharding.sharded import Sharding, evaluate_together
from stream_apple.stream.positions.merge_note import MergeSettings

pytestmark = pytest.mark.usefixtures("small_sizes")


@pytest.mark.parametrize(("every", "parents"), [(1, "votes"), (1, "union"), (2, "votes")])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_dealt_round_robin(count: int, every: int, parents: Literal["votes", "union"]) -> None:
    """The record at offset k of partition p is row k * P + p; hours have different numbers of them."""
    hours = [70, 60, 90, 60, 50]
    given = {number: hourly(number, np.roll(hours, number).tolist()) for number in range(count)}
    setup = SETUP._replace(merging=MergeSettings(every, parents, math.inf, math.inf))
    cluster = cluster_of(given)
    process = Process(cluster, setup=setup, tick=0.01)
    finish(cluster, process)
    published = outputs_of(cluster)

    rows = [given[place % count][place // count] for place in range(count * sum(hours))]
    decoded = DECODER.decode([record.value() or b"" for record in rows])
    assert not decoded.reasons.any()
    batch = decoded.batch.select(np.arange(len(rows)))
    times = np.array([record.timestamp()[1] for record in rows], np.int64)
    settings = setup.model_settings
    dealt = deal_by_time(times, settings.epoch_length_ms, settings.max_ahead_ms, count)
    sharding = Sharding(count, Exchange(parents, every))
    schedule = Schedule(test_fraction=0.0, keep_order=True)
    together = evaluate_together(batch, settings.options, schedule, sharding, dealt)

    assert len(together.lockstep.rosters) == {1: 4, 2: 2}[every]
    for number, model in process.models.items():
        shard = together.lockstep.shards[number]
        assert shard.learner.digest() == model.learner.digest()
        answers = [msgpack.unpackb(output.value)["prediction"] for output in published[TOPICS.predictions, number]]
        assert answers == shard.scores.predictions.tolist()
        assert answers == together.run.scores.predictions[number::count].tolist()
