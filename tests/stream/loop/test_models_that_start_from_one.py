"""A worker whose models start from one that has learned already: the same bits at every start, however often."""

from collections.abc import Sequence

import numpy as np
import pytest
from simulation.cluster import MemoryCluster
from simulation.process import TOPICS, Setup
from simulation.world import outputs_of, pointer_of
from stream.one_worker import SETUP, Worker, cluster_with, input_log, killed_after, offsets_of
from stream.verification.test_verifying_runs import ClusterLogs
from support.records import DECODER, TOPIC, FakeRecord, good, new_model, stream

from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.learners.merging_port import Mergeable
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.warmup import warm_up
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.sources import Sources

pytestmark = pytest.mark.usefixtures("small_sizes")


def learned(seed: int) -> Mergeable:
    """A model that has parents, as it is adopted."""
    model = new_model()
    model.process(stream(600, seed=seed))
    assert model.learner.census().parents.sum() > 0
    return merge([mergeable_of(model.learner)]).model


def started_from(seed: int) -> Setup:
    """A worker whose models start from that one, and whose file's digest says so."""
    settings = SETUP.settings._replace(start=learned(seed))
    return SETUP._replace(settings=settings, model={**SETUP.model, "from_model": {"sha256": f"{seed:064x}"}})


WARM = started_from(7)


def made(partition: int, lineage: Lineage) -> PartitionModel:
    """As the composition root makes it."""
    return PartitionModel(TOPIC, partition, lineage, WARM.model_settings, DECODER)


def uninterrupted(partition: int, records: Sequence[FakeRecord]) -> tuple[PartitionModel, list[bytes]]:
    """The model of a partition, and all that it predicts."""
    model = made(partition, WARM.provenance.lineage(partition, 0))
    model.begin()
    return model, model.process(records).predictions


def predictions(cluster: MemoryCluster, partition: int) -> list[bytes | None]:
    """What readers see."""
    return [output.value for output in outputs_of(cluster)[TOPICS.predictions, partition]]


def verify(cluster: MemoryCluster) -> list[Report]:
    """Reports on all partitions."""
    verifier = Verifier(Sources(ClusterLogs(cluster), WARM.provenance, made, 7), lambda *_: None)
    return verifier.verify_each(range(len(cluster.logs(TOPIC))))


def test_a_model_begins_with_what_was_learned_and_with_nothing_else() -> None:
    """It predicts as the other does; it has its own counts, losses and clock, and the other stays as it is."""
    start = WARM.settings.start
    assert start is not None
    before = start.digest()
    model, cold = made(0, WARM.provenance.lineage(0, 0)), new_model()
    model.begin()
    assert mergeable_of(model.learner).digest() == before
    assert as_apple(model.learner).occupied == np.count_nonzero(start.state.rows["slots"]["key"]) > 0
    assert (model.learner.examples, model.next_offset, model.clock.epoch) == (0, 0, -1)
    teacher = new_model()
    teacher.process(stream(600, seed=7))
    batch = DECODER.decode([record.payload for record in stream(9, seed=3)]).batch
    assert np.array_equal(as_apple(model.learner).predict(batch), as_apple(teacher.learner).predict(batch))
    assert not np.array_equal(as_apple(model.learner).predict(batch), as_apple(cold.learner).predict(batch))
    model.process(stream(50, seed=9))
    assert start.digest() == before


def test_one_that_has_not_begun_learns_nothing() -> None:
    """It would be another model, under this one's name."""
    with pytest.raises(AssertionError, match="neither begun nor restored"):
        made(0, WARM.provenance.lineage(0, 0)).process(stream(5, seed=1))


def test_kernels_are_compiled_on_models_that_start_from_nothing() -> None:
    """Theirs is another size."""
    warm_up(WARM.settings, DECODER)


def test_every_partition_starts_from_it() -> None:
    """The first prediction is the other model's; and what is published passes a verification."""
    log = input_log()
    cluster = cluster_with(log)
    Worker(cluster, setup=WARM).run()
    for number, records in log.items():
        expected = uninterrupted(number, records)[1]
        assert predictions(cluster, number) == expected
        assert decode_prediction(expected[0])["prediction"] != 0.0
    cold = cluster_with(log)
    Worker(cold).run()
    assert [decode_prediction(value or b"")["prediction"] for value in predictions(cold, 0)[:1]] == [0.0]
    assert [report.fault_count for report in verify(cluster)] == [0, 0]


@pytest.mark.parametrize("commits", [1, 2])
def test_it_starts_again_before_there_is_a_snapshot(commits: int) -> None:
    """A worker that was killed: its successor learns all again from the same start, and answers the rest."""
    log = input_log()
    cluster = killed_after(log, commits, WARM)
    cluster.time_out_transactions()
    assert offsets_of(cluster)
    assert all(pointer_of(cluster, number, WARM) is None for number in offsets_of(cluster))
    successor = Worker(cluster, setup=WARM).run()
    assert State.REPLAYING in successor.states
    for number, records in log.items():
        model, expected = uninterrupted(number, records)
        assert predictions(cluster, number) == expected
        assert successor.models[number].digest() == model.digest()
    assert [report.fault_count for report in verify(cluster)] == [0, 0]


def test_a_snapshot_is_gone_on_with_not_the_start() -> None:
    """A restored model is what it was, to the bit, whatever models start from."""
    log = input_log()
    cluster = cluster_with(log)
    Worker(cluster, setup=WARM).run()
    more = {
        number: [good(records[-1].at + 1 + at, partition=number) for at in range(5)] for number, records in log.items()
    }
    for records in more.values():
        cluster.load(TOPIC, records)
    successor = Worker(cluster, setup=WARM).run()
    assert State.RESTORING in successor.states
    for number, records in log.items():
        model, expected = uninterrupted(number, [*records, *more[number]])
        assert successor.models[number].digest() == model.digest()
        assert predictions(cluster, number) == expected


@pytest.mark.parametrize("other", [SETUP, started_from(8)], ids=["none", "another"])
def test_another_start_is_another_model(other: Setup) -> None:
    """It is refused with the fingerprints of both, and says what to restore."""
    cluster = cluster_with(input_log())
    Worker(cluster, setup=WARM).run()
    ours, theirs = (setup.provenance.lineage(0, 0).model for setup in (other, WARM))
    with pytest.raises(ConfigurationError, match=rf"expected model {ours} .*found {theirs}; .*worker\.from_model"):
        Worker(cluster, setup=other).run()
