"""Takes a partition that is learned again through its boundaries, as the adoption records say.

If a record, or the merged model that it names, is missing, the model behind the boundary can't be known, and is not
learned any further.
"""

from collections.abc import Callable, Sequence

from stream_apple.errors import GapError, SnapshotError
from stream_apple.learners.systems import merging_of
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.model.rounds import Boundary
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState
from stream_apple.stream.walk.answers import Boundaries
from stream_apple.stream.walk.faults import Fault, Faults, Kind
from stream_apple.stream.walk.recorded_merges import FoundAdoption, RecordedMerges


class Crossing:
    """Takes models of one partition through its boundaries, as the adoption records say.

    restored  makes the newest snapshot's model again, to go on if the model can't be learned; None: there is none

    noted   the committed note about the newest boundary; None before the first
    counts  of the boundaries that have been passed
    """

    def __init__(
        self,
        merges: RecordedMerges,
        provenance: Provenance,
        number: int,
        metadata: OffsetMetadata,
        faults: Faults,
        restored: Callable[[], PartitionModel | None],
    ) -> None:
        self.noted = (
            None if metadata.merge is None else _where_it_was(metadata.merge.boundary, merges.adoptions[number])
        )
        self.counts = Boundaries()
        self.restored = restored
        self._merges = merges
        self._place = f"{provenance.topics.examples}-{number}"
        self._records = merges.adoptions[number]
        self._faults = faults
        self._stood: dict[int, tuple[Boundary, str]] = {}  # at -> the boundary, and the digest of its contribution

    def recorded(self, at: int) -> bool:
        """Whether a round has ended at this offset, by the adoption records."""
        return any(each.record.at == at for each in self._records)

    def waits(self, boundary: Boundary) -> bool:
        """Whether the partition still waits at this boundary, by the committed note."""
        return self.noted is not None and self.noted == (*boundary, BoundaryState.CONTRIBUTED)

    def stand(self, model: PartitionModel) -> None:
        """Remember the boundary at which a model stands, and its digest."""
        assert model.held is not None
        self._stood[model.held.at] = (model.held, model.digest())

    def cross(self, model: PartitionModel) -> str | None:
        """Have a model pass its boundary as recorded; return None, or a text that says why it can't be known how."""
        boundary, rounds = model.held, model.rounds
        assert boundary is not None
        assert rounds is not None
        found = self._record_at(boundary.at)
        if found is None:
            return self._without_record(boundary)
        record = found.record
        if record.round != boundary.round:
            self._differs(found, f"expected round {boundary.round} to end here, found {record.round}")
        if record.state is BoundaryState.ADOPTED:
            why = self._adopt(model, found)
            if why is not None:
                return why
        rounds.go_on()
        self._went_on(model, found)
        return None

    def jumped(self, model: PartitionModel, at: int) -> None:
        """Take in that a model has left out a gap at `at`; it had come to a boundary there if that is recorded."""
        found = self._record_at(at)
        if found is None or model.rounds is None:
            return
        self._stood[at] = (Boundary(found.record.round, at), "")
        if found.record.state is not BoundaryState.SKIPPED:
            self._differs(found, "expected it to go on alone, the record behind being gone, found it to have adopted")
        model.rounds.go_on()
        self._went_on(model, found)

    def finish(self, proved: range, unproved: range, partition: int) -> None:
        """Report records of boundaries that the model did not come to, in `proved` but not in `unproved` offsets."""

        def stray(at: int) -> bool:
            return at in proved and at not in self._stood and not unproved.start <= at <= unproved.stop

        for found in self._records:
            if stray(found.record.at):
                text = f"round {found.record.round}: expected it to end at this example, found no round to end there"
                self._fault(Kind.ADOPTION_STRAY, found.offset, found.record.at, text)
        for pointer, manifest in self._merges.merges:
            for entry in manifest.roster:
                if entry.partition != partition:
                    continue
                stood, digest = self._stood.get(entry.at, (None, ""))
                text = ""
                if stood is None and stray(entry.at):
                    text = f"found no round of {self._place} to end there"
                elif stood is not None and stood.round != pointer.round:
                    text = f"found round {stood.round} of {self._place} to end there"
                elif digest not in ("", entry.digest):
                    text = f"found digest {digest} when it was learned again"
                if text:
                    text = f"round {pointer.round}: expected a contribution with digest {entry.digest}, {text}"
                    self._fault(Kind.ROSTER, pointer.last, entry.at, text)

    def _record_at(self, at: int) -> FoundAdoption | None:
        """Return the adoption record of a boundary, the first if there are several, which is a fault; None: none."""
        found = [each for each in self._records if each.record.at == at]
        for other in found[1:]:
            text = (
                f"round {other.record.round}: expected one record of this boundary, found message {found[0].offset} too"
            )
            self._fault(Kind.ADOPTED_TWICE, other.offset, at, text)
        return found[0] if found else None

    def _without_record(self, boundary: Boundary) -> str:
        place = f"{self._place}@{boundary.at}, where round {boundary.round} ends"
        earlier = any(each.record.at < boundary.at for each in self._records)
        if self._merges.low > 0 and not earlier:
            why = (
                f"{place}: expected its adoption record in {self._merges.topic}, found {self._merges.low} as the first"
            )
            return f"{why} message there: it is gone"
        text = f"round {boundary.round}: expected a record of how the partition went on, found none"
        self._fault(Kind.ADOPTION_MISSING, None, boundary.at, text)
        return f"{place}: nothing says with which model it went on"

    def _adopt(self, model: PartitionModel, found: FoundAdoption) -> str | None:
        record = found.record
        assert record.merged is not None
        place = f"{self._place}@{record.at}, where round {record.round} ends"
        try:
            merged = self._merges.model(record.merged, model)
        except GapError as error:
            return f"{place}: {error}"
        except SnapshotError as error:
            self._fault(Kind.MERGED, record.merged.first, record.at, str(error))
            return f"{place}: its merged model can't be read"
        included = merged.manifest.includes(record.partition, record.at)
        for name, expected, told in (
            ("merged model's round", merged.manifest.round, record.round),
            ("merged model's digest", merged.manifest.digest, record.digest),
            ("its being in it", included, record.included),
        ):
            if expected != told:
                self._differs(found, f"expected of the {name} {expected}, found {told}")
        model.adopt(merged.model)
        adopted = merging_of(model.learner.options).mergeable_of(model.learner)
        if (learned := adopted.digest()) != record.digest:
            self._differs(
                found, f"expected the merged part of its model to have digest {record.digest}, found {learned}"
            )
        return None

    def _went_on(self, model: PartitionModel, found: FoundAdoption) -> None:
        record, counts = found.record, self.counts
        if (digest := model.digest()) != record.model:
            self._differs(found, f"expected the model learned again to have digest {record.model}, found {digest}")
        if record.state is BoundaryState.SKIPPED:
            self.counts = counts._replace(skipped=counts.skipped + 1)
        elif record.included:
            self.counts = counts._replace(adopted=counts.adopted + 1)
        else:
            self.counts = counts._replace(late=counts.late + 1)

    def _differs(self, found: FoundAdoption, text: str) -> None:
        self._fault(Kind.ADOPTED_OTHERWISE, found.offset, found.record.at, f"round {found.record.round}: {text}")

    def _fault(self, kind: Kind, offset: int | None, example: int, text: str) -> None:
        self._faults.add(Fault(kind, self._merges.topic, 0, offset, example, text))


def _where_it_was(noted: BoundaryNote | None, records: Sequence[FoundAdoption]) -> BoundaryNote | None:
    """Return the note with the offset in the boundary's record, as the noted one may be further on, behind a gap."""
    if noted is None or noted.state is BoundaryState.CONTRIBUTED or any(each.record.at == noted.at for each in records):
        return noted
    earlier = [each.record.at for each in records if each.record.round == noted.round and each.record.at < noted.at]
    return noted._replace(at=earlier[-1]) if earlier else noted
