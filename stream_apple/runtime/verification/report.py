"""What a verification has to say of one partition."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from stream_apple.runtime.lineage import Gap, SnapshotPointer
from stream_apple.runtime.verification.faults import Fault

ReportProgress = Callable[[int, int, int, int], None]
"""(partition, first offset, next offset, end)"""


class Published(NamedTuple):
    """One kind of answers: how many the model had to give, and what became of them, see `comparison.Comparison`."""

    expected: int = 0
    matched: int = 0
    earlier: int = 0
    gone: int = 0
    foreign: int = 0


class Unproved(NamedTuple):
    """Examples that could not be learned again, because a merged model or an adoption record can't be had, and why."""

    start: int
    stop: int
    why: str


class Covered(NamedTuple):
    """Which examples were learned again.

    origin       what the model was learned again from; None if there was nothing to verify
    start, stop  their offsets
    records      how many there were
    unproved     those among them that were left out: the model was then restored from its newest snapshot, if it could
    """

    origin: Literal["start", "snapshot"] | None
    start: int
    stop: int
    records: int = 0
    unproved: Unproved | None = None


class Boundaries(NamedTuple):
    """The ends of rounds that a partition has passed, and how.

    adopted  with a merged model that it is in
    late     with one that it is not in
    skipped  alone
    """

    adopted: int = 0
    late: int = 0
    skipped: int = 0


class MadeAgain(NamedTuple):
    """Merged models of the log, of all partitions.

    merges   how many there are
    matched  of them, those that were made again of the same models, with the same digest
    unknown  those of which a contribution could not be learned again; the others are faults
    """

    merges: int = 0
    matched: int = 0
    unknown: int = 0


class Report(NamedTuple):
    """What was found in one partition.

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

    def facts(self) -> dict[str, Any]:
        """All of it as one flat object; what there is only where models are merged is not there otherwise."""
        rest = self._asdict()
        covered = rest.pop("covered")._asdict()
        optional = {name: rest.pop(name) for name in ("boundaries", "made_again")}
        optional["unproved"] = covered.pop("unproved")
        present = {name: part for name, part in optional.items() if part is not None}
        return {"partition": self.partition, "model": self.model, **covered, **rest, **present}
