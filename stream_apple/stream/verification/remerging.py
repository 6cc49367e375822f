"""Learns all partitions again at the same time, and makes each merged model again of their models.

The merges are made in the order of the log: each partition is learned up to the boundary where it contributed, and
waits there until it has been merged with the others.
"""

from collections.abc import Generator, Mapping

from stream_apple.learners.merging_port import Parents
from stream_apple.learners.port import Learner
from stream_apple.learners.systems import merging_of
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.verification.partition_report import MadeAgain, Report
from stream_apple.stream.walk.faults import Fault, Faults, Kind
from stream_apple.stream.walk.recorded_merges import FoundMerge, RecordedMerges

Relearning = Generator[PartitionModel, None, Report]
"""Yields the model each time that it stands at a boundary, and returns the report."""


class Lane:
    """Learns one partition again, as far as the merges need it."""

    def __init__(self, relearning: Relearning) -> None:
        self._relearning = relearning
        self._report: Report | None = None
        self._model: PartitionModel | None = None  # as it stands at a boundary

    @property
    def report(self) -> Report:
        """Return the report of the partition, once it is finished."""
        assert self._report is not None
        return self._report

    def reach(self, at: int) -> PartitionModel | None:
        """Learn up to the boundary at `at`, and return the model there; None if there is no boundary.

        It never learns past the first boundary at or behind `at`; earlier ones can't be reached again.
        """
        while self._report is None and (self._model is None or self._stands_at < at):
            self._go_on()
        return self._model if self._model is not None and self._stands_at == at else None

    def finish(self) -> None:
        """Learn all records that are left, up to the report."""
        while self._report is None:
            self._go_on()

    @property
    def _stands_at(self) -> int:
        assert self._model is not None
        return self._model.next_offset

    def _go_on(self) -> None:
        try:
            self._model = next(self._relearning)
        except StopIteration as end:
            self._model, self._report = None, end.value


def make_again(merges: RecordedMerges, lanes: Mapping[int, Lane], parents: Parents, faults: Faults) -> MadeAgain:
    """Make each merged model again, and learn the rest of all partitions; another digest is a fault."""
    matched = unknown = 0
    found = list(merges.merges)
    for each in found:
        models = _contributions(each, lanes)
        if models is None:
            unknown += 1
            continue
        pointer, manifest = each
        digest = merging_of(models[0].options).merge(models, parents=parents).model.digest()
        matched += digest == manifest.digest
        if digest != manifest.digest:
            who = ", ".join(map(str, manifest.members))
            text = (
                f"round {pointer.round}: expected the merged model with digest {digest}, made again of partitions "
                f"{who}, found {manifest.digest}"
            )
            faults.add(Fault(Kind.MERGED, merges.topic, 0, pointer.last, None, text))
    for lane in lanes.values():
        lane.finish()
    return MadeAgain(len(found), matched, unknown)


def _contributions(found: FoundMerge, lanes: Mapping[int, Lane]) -> list[Learner] | None:
    """Return the models that were merged, learned again; None if one of them can't be learned."""
    models: list[Learner] = []
    for entry in found.manifest.roster:
        lane = lanes.get(entry.partition)
        model = None if lane is None else lane.reach(entry.at)
        if model is None:
            return None
        models.append(model.learner)
    return models
