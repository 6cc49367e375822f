"""Watchers that watch nothing, for loops and pages in tests."""

from collections.abc import Sequence

from stream_apple.monitoring.name_search import Wanted
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import Partition


class NullObserver:
    """An observer that looks at nothing."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Ignore the batch."""


def find_no_names(_: Wanted) -> bool:
    """Return False, as nobody reads the topic: no search ends here, so there is nothing to wait for."""
    return False
