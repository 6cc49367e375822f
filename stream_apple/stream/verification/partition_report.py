"""The report of a verification on one partition."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from stream_apple.stream.positions.lineage import Gap, SnapshotPointer
from stream_apple.stream.walk.answers import Boundaries, Unproved
from stream_apple.stream.walk.faults import Fault

ReportProgress = Callable[[int, int], None]
"""Called with (offsets done, offsets in all), of all partitions together."""


class Published(NamedTuple):
    """Counts the answers of one kind that the model had to give, and what was found, see `output_check.OutputCheck`."""

    expected: int = 0
    matched: int = 0
    earlier: int = 0
    gone: int = 0
    foreign: int = 0


class Covered(NamedTuple):
    """Says which examples were learned again.

    origin       whether the model was learned from its start or a snapshot; None if there was nothing to verify
    start, stop  the offsets of the examples
    records      how many were learned
    unproved     those in between that could not be learned; then the newest snapshot's model went on, if there is one
    begin        the model's first offset
    """

    origin: Literal["start", "snapshot"] | None
    start: int
    stop: int
    records: int = 0
    unproved: Unproved | None = None
    begin: int = 0


class MadeAgain(NamedTuple):
    """Counts the merged models of the log that were made again, of all partitions.

    matched  how many were made again with the same digest
    unknown  how many have a contribution that could not be learned again; the others are faults
    """

    merges: int = 0
    matched: int = 0
    unknown: int = 0


class Report(NamedTuple):
    """Holds what was found in one partition.

    model       fingerprint; None if nothing is committed, so that there was nothing to verify
    gaps        that were left out, as an operator has accepted them
    snapshot    the newest one; it is also verified that it can be read, and has its digest
    relearned   digest of the model that was learned again, at the snapshot's offset; None if it did not pass that
    faults      the first ones; there are `fault_count`
    boundaries  None where models are not merged
    made_again  in the first of all reports, if all partitions of merged models are verified
    """

    partition: int
    model: str | None
    covered: Covered
    predictions: Published = Published()
    dead_letters: Published = Published()
    gaps: tuple[Gap, ...] = ()
    snapshot: SnapshotPointer | None = None
    relearned: str | None = None
    fault_count: int = 0
    faults: Sequence[Fault] = ()
    boundaries: Boundaries | None = None
    made_again: MadeAgain | None = None

    @property
    def unproved(self) -> list[Unproved]:
        """Return the examples whose answers are not proved; if there are none, each answer was compared.

        Examples in `gaps` are not among them, as the model has no answers to them.
        """
        begin, start, stop, between = self.covered.begin, self.covered.start, self.covered.stop, self.covered.unproved
        found = []
        if self.covered.origin == "snapshot" and (between is None or between.start > begin):
            left_out = sum(gap.stop - gap.start for gap in self.gaps if gap.stop <= start)
            why = "some of these records are gone: only what came after its snapshot is proved"
            found.append(Unproved(begin, start, why, start - begin - left_out))
        if between is not None:
            found.append(between)
        for published, name in ((self.predictions, "predictions"), (self.dead_letters, "dead letters")):
            if published.gone:
                found.append(Unproved(start, stop, f"their {name} are gone from the topic", published.gone))
            if published.earlier:
                why = f"their {name} were given before a gap, by a state that is gone"
                found.append(Unproved(start, stop, why, published.earlier))
        return [each for each in found if each.answers]

    @property
    def unproved_count(self) -> int:
        """Return how many answers are not proved, at most."""
        return sum(each.answers for each in self.unproved)

    def facts(self) -> dict[str, Any]:
        """Return the report as one flat object; `boundaries` and `made_again` are left out where they are None."""
        rest = self._asdict()
        covered = rest.pop("covered")._asdict()
        optional = {name: rest.pop(name) for name in ("boundaries", "made_again")}
        covered["unproved"] = [
            {"start": each.start, "stop": each.stop, "examples": each.answers, "why": each.why}
            for each in self.unproved
        ]
        present = {name: part for name, part in optional.items() if part is not None}
        return {"partition": self.partition, "model": self.model, **covered, **rest, **present}
