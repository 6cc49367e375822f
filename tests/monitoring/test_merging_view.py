"""What `inspect` shows of merging."""

import pytest
from stream.merging.lockstep import hourly
from stream.verification.merged_logs import PLACE, MergedLogs, left_by, strict

from stream_apple.errors import SnapshotError
from stream_apple.monitoring.merging_view import MergingView, newest_merge, view_merging
from stream_apple.stream.positions.merge_note import BoundaryState


def view(logs: MergedLogs, number: int) -> MergingView | None:
    """Of one partition."""
    committed = logs.offsets[number]
    assert committed is not None
    provenance = logs.setup.provenance
    return view_merging(provenance.read_metadata(number, committed), newest_merge(logs, provenance))


def test_boundary_and_roster() -> None:
    """Where the partition's newest round ended, and who is in the newest merge."""
    logs = strict()
    for number in range(3):
        found = view(logs, number)
        assert found is not None
        assert found.boundary is not None
        assert found.merge is not None
        assert (found.boundary.round, found.boundary.state) == (logs.rounds()[-1], BoundaryState.ADOPTED)
        assert found.boundary.at == [record for _, record in logs.adoptions() if record.partition == number][-1].at
        assert (found.merge["round"], found.merge["roster"], found.merge["excluded"]) == (
            logs.rounds()[-1],
            [0, 1, 2],
            {},
        )


def test_who_is_left_out() -> None:
    """A partition without records, and why."""
    logs = left_by({0: hourly(0, [5, 5]), 1: hourly(1, [5, 5]), 2: []})
    found = view(logs, 1)
    assert found is not None
    assert found.merge is not None
    assert (found.merge["roster"], set(found.merge["excluded"])) == ([0, 1], {"2"})
    assert found.merge["excluded"]["2"] in ("idle", "late")


def test_it_is_gone_or_something_else() -> None:
    """What retention has taken is not shown; what is no manifest is told."""
    logs = strict()
    last = logs.parts(logs.rounds()[-1])[-1]
    logs.logs[PLACE][last] = logs.logs[PLACE][last]._replace(payload=b"\xc0")
    with pytest.raises(SnapshotError, match="expected an undamaged message"):
        view(logs, 0)
    logs.remove_before(PLACE, logs.logs[PLACE][last].at + 1)
    found = view(logs, 0)
    assert found is not None
    assert found.merge is None


def test_nothing_is_merged() -> None:
    """Then there is nothing to show."""
    logs = strict()
    committed = logs.offsets[1]
    assert committed is not None
    metadata = logs.setup.provenance.read_metadata(1, committed)
    assert view_merging(metadata._replace(merge=None), None) is None
