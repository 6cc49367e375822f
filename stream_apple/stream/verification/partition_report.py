"""What a verification has to say of one partition."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from stream_apple.stream.positions.lineage import Gap, SnapshotPointer
from stream_apple.stream.verification.faults import Fault

ReportProgress = Callable[[int, int], None]
"""(records learned again, of how many in all partitions)"""


class Published(NamedTuple):
    """One kind of answers: how many the model had to give, and what became of them, see `output_check.OutputCheck`."""

    expected: int = 0
    matched: int = 0
    earlier: int = 0
    gone: int = 0
    foreign: int = 0


class Unproved(NamedTuple):
    """Examples whose answers could not be compared with what a model gives that learns them again, and why.

    start, stop  their offsets; those of all that were learned, where it is some of their answers that are gone
    examples     how many; None if all of these offsets, among which markers of transactions may be
    """

    start: int
    stop: int
    why: str
    examples: int | None = None

    @property
    def answers(self) -> int:
        """Return how many answers these are, at most."""
        return self.stop - self.start if self.examples is None else self.examples


class Covered(NamedTuple):
    """Says which examples were learned again.

    origin       what the model was learned again from; None if there was nothing to verify
    start, stop  their offsets
    records      how many there were
    unproved     those among them that were left out: the model was then restored from its newest snapshot, if it could
    begin        the model's first
    """

    origin: Literal["start", "snapshot"] | None
    start: int
    stop: int
    records: int = 0
    unproved: Unproved | None = None
    begin: int = 0


class Boundaries(NamedTuple):
    """Counts the ends of rounds that a partition has passed, and how it did.

    adopted  with a merged model that it is in
    late     with one that it is not in
    skipped  alone
    """

    adopted: int = 0
    late: int = 0
    skipped: int = 0


class MadeAgain(NamedTuple):
    """Counts the merged models of the log that were made again, of all partitions.

    merges   how many there are
    matched  of them, those that were made again of the same models, with the same digest
    unknown  those of which a contribution could not be learned again; the others are faults
    """

    merges: int = 0
    matched: int = 0
    unknown: int = 0


class Report(NamedTuple):
    """Holds what was found in one partition.

    model       fingerprint; None if nothing is committed, so that there was nothing to verify
    gaps        left out, because an operator has accepted it
    snapshot    the newest one; that it can be read, and has its digest, is verified as well
    relearned   digest of the model that was learned again, at the snapshot's offset; None if it did not come by there
    faults      the first of `fault_count`
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
        """All that the model has answered and that is not proved; without any, each answer was compared.

        What an operator has accepted to be left out (`gaps`) is no example of the model.
        """
        begin, start, stop, between = self.covered.begin, self.covered.start, self.covered.stop, self.covered.unproved
        found = []
        if self.covered.origin == "snapshot" and (between is None or between.start > begin):
            left_out = sum(gap.stop - gap.start for gap in self.gaps if gap.stop <= start)
            why = f"records before {start} are gone: only what came after its snapshot is proved"
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
        """How many examples have answers that are not proved, at most."""
        return sum(each.answers for each in self.unproved)

    def facts(self) -> dict[str, Any]:
        """All of it as one flat object; what there is only where models are merged is not there otherwise."""
        rest = self._asdict()
        covered = rest.pop("covered")._asdict()
        optional = {name: rest.pop(name) for name in ("boundaries", "made_again")}
        covered["unproved"] = [
            {"start": each.start, "stop": each.stop, "examples": each.answers, "why": each.why}
            for each in self.unproved
        ]
        present = {name: part for name, part in optional.items() if part is not None}
        return {"partition": self.partition, "model": self.model, **covered, **rest, **present}
