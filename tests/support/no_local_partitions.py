"""A leader's worker that owns no other partition: all contributions are read from the log."""

from collections.abc import Mapping

from stream_apple.core.learner.merging.mergeable import Mergeable
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.open_rounds import Standing
from stream_apple.stream.snapshots.merge_messages import RosterEntry


class NothingLocal:
    """Knows no partition."""

    commits: Mapping[int, Committed] = {}
    lent: Mapping[int, Standing] = {}

    def model(self, _entry: RosterEntry) -> Mergeable | None:
        """None is here."""
        return None
