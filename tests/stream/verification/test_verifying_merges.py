"""Partitions that merge, verified: no fault where there is none, each kind where it is, and what can't be proved."""

import pytest
from simulation.merging.histories import HastySchedule, StrictSchedule
from simulation.process import GROUP, MERGES
from simulation.small import small
from stream.merging.cluster_of_rounds import SETUP, cluster_of, finish, new_process
from stream.merging.lockstep import hourly
from stream.verification.merged_logs import HASTY, MergedLogs, left_by, left_when, strict
from stream.verification.test_verifying_runs import ClusterLogs
from support.records import DECODER, TOPIC

from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.positions.merge_note import BoundaryState
from stream_apple.stream.verification.partition_report import MadeAgain, Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.answers import Boundaries
from stream_apple.stream.walk.faults import Kind
from stream_apple.stream.walk.sources import Sources


def kinds(*reports: Report) -> set[Kind]:
    """Of all faults."""
    return {fault.kind for report in reports for fault in report.faults}


class TestNoFaults:
    """What workers leave is as it must be."""

    def test_one_partition_after_the_other(self) -> None:
        """Learned again through all of its boundaries, from the start, to the snapshot's own state."""
        logs = strict()
        for partition in range(3):
            report = logs.verify(partition)
            assert report.faults == []
            assert (report.covered.origin, report.covered.unproved) == ("start", None)
            assert report.boundaries == Boundaries(adopted=3)
            assert report.snapshot is not None
            assert report.relearned == report.snapshot.digest
            assert report.predictions.matched == report.predictions.expected == report.covered.records > 20

    def test_all_at_once(self) -> None:
        """Every merged model is made again of the models that were merged."""
        reports = strict().verify_all()
        assert kinds(*reports) == set()
        assert [report.made_again for report in reports] == [MadeAgain(3, 3, 0), None, None]
        assert [report.boundaries for report in reports] == [Boundaries(adopted=3)] * 3

    def test_a_partition_alone_is_no_boundary_less(self) -> None:
        """Of one partition a merged model is that partition's own; it is adopted, and made again."""
        (report,) = left_by({0: hourly(0, [5, 5, 5])}).verify_all()
        assert report.faults == []
        assert (report.boundaries, report.made_again) == (Boundaries(adopted=2), MadeAgain(2, 2, 0))

    def test_late_and_idle_partitions(self) -> None:
        """One comes to the end of a round that the others have merged without it; one has no records."""
        logs = left_by({0: hourly(0, [5, 5, 5, 5]), 1: hourly(1, [5, 200, 5, 5]), 2: []})
        reports = logs.verify_all()
        assert kinds(*reports) == set()
        assert reports[2].model is None

    @pytest.mark.parametrize("state", ["waiting", "gone on"])
    def test_a_worker_in_the_middle(self, state: str) -> None:
        """Partitions stand at a boundary, contributed or just adopted: only the record behind shows the round's end."""
        given = {number: hourly(number, [6, 5, 4]) for number in range(2)}
        at = given[0][6].at

        def here(process: object) -> bool:
            committed = process.memory.committed_now([0])[0]  # type: ignore[attr-defined]
            noted = "" if committed is None else committed.metadata
            wanted = BoundaryState.CONTRIBUTED if state == "waiting" else BoundaryState.ADOPTED
            return committed is not None and f',{at},"{wanted}"' in noted

        logs = left_when(given, here)
        committed = logs.offsets[0]
        assert committed is not None
        reports = logs.verify_all()
        assert kinds(*reports) == set()
        if committed.offset == at:
            assert reports[0].snapshot is not None
            assert reports[0].relearned == reports[0].snapshot.digest

    def test_a_skipped_record_behind_a_boundary(self) -> None:
        """The round ends where it did for the worker, with what was left out."""
        setup = SETUP._replace(exceptions=Exceptions(skips=frozenset({(0, 5)})))
        reports = left_by({number: hourly(number, [5, 5, 5]) for number in (0, 1)}, setup).verify_all()
        assert kinds(*reports) == set()
        assert reports[0].made_again == MadeAgain(2, 2, 0)
        assert reports[0].dead_letters.matched == 1

    def test_a_gap_behind_a_boundary(self) -> None:
        """The partition has gone on alone behind it, from its snapshot there."""
        given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5])}
        setup = HASTY._replace(exceptions=Exceptions(gaps=frozenset({(0, 5)})))
        with small():
            cluster = cluster_of(given)
            process = new_process(cluster)
            while 0 not in cluster.group(GROUP, TOPIC).offsets or process.live.get(0) != 5:
                process.step()
            for _ in range(20):
                process.step()
            process.kill()
            cluster.log(TOPIC, 0).delete_before(8)
            finish(cluster, new_process(cluster, setup))
            logs = MergedLogs(cluster, setup)
        assert BoundaryState.SKIPPED in {record.state for _, record in logs.adoptions() if record.at == 5}
        reports = logs.verify_all()
        assert kinds(*reports) == set()
        assert reports[0].covered.origin == "snapshot"

    def test_from_a_snapshot(self) -> None:
        """Records are gone: boundaries before the snapshot are not needed, nor what was merged there."""
        logs = strict()
        committed = logs.offsets[1]
        assert committed is not None
        logs.remove_before((TOPIC, 1), committed.offset)
        report = logs.verify(1)
        assert report.faults == []
        assert (report.covered.origin, report.boundaries) == ("snapshot", Boundaries())
        reports = logs.verify_all()
        assert kinds(*reports) == set()
        assert reports[0].made_again == MadeAgain(3, 0, 3)

    @pytest.mark.parametrize("kind", [StrictSchedule, HastySchedule])
    @pytest.mark.parametrize("seed", range(8))
    def test_random_histories(self, seed: int, kind: type[StrictSchedule | HastySchedule]) -> None:
        """Crashes, zombies, rebalances, partitions that skip and come late: no fault is found in what they leave."""
        with small():
            schedule = kind(seed)  # it changes a size, too
            schedule.run()
            cluster, setup = schedule._cluster, schedule._setup
            cluster.time_out_transactions()

            def new_model(partition: int, lineage: Lineage) -> PartitionModel:
                return PartitionModel(TOPIC, partition, lineage, setup.model_settings, DECODER)

            verifier = Verifier(Sources(ClusterLogs(cluster), setup.provenance, new_model, 7), lambda *_: None)
            reports = verifier.verify_all()
        assert [report.faults for report in reports] == [[]] * len(reports)
        assert reports[0].made_again is not None
        proved = [report for report in reports if report.covered.unproved is None]
        if cluster.log(MERGES, 0).low == 0:  # else retention has taken what some would need
            assert proved == reports
        if all(report.covered.origin == "start" for report in reports) and proved == reports:
            assert reports[0].made_again.matched == reports[0].made_again.merges
        for report in proved:
            if report.covered.origin == "start":
                assert report.snapshot is not None
                assert report.relearned == report.snapshot.digest
