"""What the tests of the loop share: small sizes, and what an undisturbed run publishes."""

from collections.abc import Iterator

import pytest
from simulation.small import small
from simulation.world import Outputs, outputs_of
from stream.one_worker import Worker, cluster_of_all, input_log, offset_of, visible


@pytest.fixture
def small_sizes() -> Iterator[None]:
    """Snapshots of several messages, and restores of several iterations."""
    with small(block_bytes=16_000):
        yield


@pytest.fixture(scope="session")
def expected() -> Outputs:
    """What a run that nothing disturbs publishes, checked to answer for every record."""
    cluster = cluster_of_all()
    worker = Worker(cluster).run()
    answered = [(partition, offset_of(topic, output)) for topic, partition, output in visible(cluster)]
    assert sorted(answered) == sorted((r.number, r.at) for records in input_log().values() for r in records)
    assert worker.broker.calls.count("commit") > 3
    return outputs_of(cluster)
