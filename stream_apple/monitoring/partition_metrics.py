"""The series of one partition, and their values as plain facts."""

import math
import time
from collections.abc import Mapping
from typing import Any

from stream_apple.core.event_time import EpochClock
from stream_apple.learners.port import GAUGES, Census, Learner
from stream_apple.monitoring.catching_up import CatchingUp, Pace
from stream_apple.monitoring.definitions import MEANS, QUALITIES
from stream_apple.monitoring.predictors import (
    AskedView,
    MixtureView,
    asked_of,
    losses_of,
    mixture_of,
    qualities_of,
)
from stream_apple.monitoring.series import GaugeSeries, Tally, dead_letters_of
from stream_apple.stream.model.early_scores import EarlyScores
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import INCOMPLETE, RECOVERING, RecoveryLeft, State


class PartitionMetrics:
    """Keeps the series of one partition, which may leave and come back.

    A gauge is exported from its first known value on, as 0 would be wrong before that.

    state  None while the worker does not own the partition
    """

    def __init__(self, metrics: dict[str, Any], number: int) -> None:
        self.state: State | None = None
        self._number = number
        label = str(number)
        self._series = GaugeSeries(metrics, label)
        self._outcomes = Tally(metrics["examples_total"], ("learned", "unlabelled", "rejected", "replayed"), label)
        self._left_out = metrics["features_left_out_total"].labels(label)
        self._features_left_out = 0.0
        self._reasons = dead_letters_of(metrics, label)
        self._changes = Tally(metrics["parent_changes_total"], ("added", "retired"), label)
        self._forget()

    def _forget(self) -> None:
        """Forget what was known of the partition's model."""
        self._digest: tuple[str, str] | None = None
        self._gauges: dict[str, float] = {}
        self._losses: dict[str, dict[str, float]] = {}
        self._quality: dict[str, dict[str, dict[str, float]]] = {}
        self._mixture = MixtureView({}, {})
        self._degrees: dict[str, dict[str, float]] = {"parents": {}, "monomials": {}}
        self._further: dict[str, float] = {}
        self._pace = Pace()
        self._asked = AskedView({}, {})

    @property
    def dead_letters(self) -> dict[str, float]:
        """Return how many records were rejected for each reason; all reasons are there."""
        return self._reasons.counts

    @property
    def lag_records(self) -> float | None:
        """Return the value of the gauge; None before its first value."""
        return self._gauges.get("lag_records")

    @property
    def behind(self) -> CatchingUp | None:
        """Return the backlog that the partition works off; None if it is not behind."""
        return self._pace.behind

    def facts(self) -> dict[str, Any]:
        """Return the values of the partition's series, in JSON types.

        They are the state, losses and quality by span, the mixture, examples by outcome, parents that were added and
        removed, counts by degree, further values of the learner, the digest, and the gauges.
        """
        digest = self._digest
        return {
            "partition": self._number,
            "state": None if self.state is None else self.state.value,
            "losses": dict(self._losses),
            "quality": dict(self._quality),
            "mixture": self._mixture,
            "parent_changes": dict(self._changes.counts),
            "examples": dict(self._outcomes.counts),
            "features_left_out_total": self._features_left_out,
            "asked": self._asked._asdict(),
            **self._degrees,
            "learner_values": self._further,
            "digest": None if digest is None else {"epoch": digest[0], "digest": digest[1]},
            **self._gauges,
        }

    def entered(self, state: State) -> None:
        """Show the present state of the partition, and no other."""
        self.state = state
        for each in {each.shown for each in State}:
            self._series.set("partition_state", each is state, each.value)

    def saved(self, size: int) -> None:
        """Note that a snapshot of `size` bytes is written."""
        self._show({"snapshot_bytes": size})

    def processed(self, result: BatchResult) -> None:
        """Count the records of a batch by what became of them."""
        self._outcomes.add("learned", result.learned)
        self._outcomes.add("unlabelled", result.unlabelled)
        self._outcomes.add("rejected", len(result.rejects))
        self._outcomes.add("replayed", result.replayed)
        self._left_out.inc(result.left_out)
        self._features_left_out += result.left_out
        for reject in result.rejects:
            self._reasons.add(reject.reason.code)
        for end in result.ends:
            self._changes.add("added", end.growth.added)
            self._changes.add("retired", end.growth.retired)
        if result.ends:
            self.show_census(result.ends[-1].growth.census)

    def refresh(self, partition: Partition, backlog: int, left: RecoveryLeft, at: float) -> None:
        """Show where the model stands `at` monotonic seconds; show nothing while it is still being restored."""
        self._show({"recovery_records_left": left.records, "recovery_seconds_left": left.seconds})
        awaited = partition.gate.awaited
        self._show({"schema_wait_seconds": 0.0 if awaited is None else max(at - awaited.since, 0.0)})
        if partition.model.held is None:  # a model that waits to be merged is not behind
            recovering = partition.state in RECOVERING | INCOMPLETE
            self._pace.look(at, partition.sent_offset, backlog, left, recovering=recovering)
        if partition.state in INCOMPLETE:
            return
        model = partition.model
        self._show_safety(partition)
        self._show_position(model.clock, backlog)
        self._show_learner(model.learner)
        self._show_asked(model.early)

    def _show(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._series.set(name, value)
            self._gauges[name] = float(value)

    def _show_safety(self, partition: Partition) -> None:
        gaps = sum(gap.stop - gap.start for gap in partition.lineage.gaps)
        self._show({"unsaved_records": partition.unsaved, "gap_records": gaps})
        if partition.saved_at_ms > 0:
            self._show({"snapshot_timestamp_seconds": partition.saved_at_ms / 1000})
        ended = partition.model.ended
        if ended.digest:
            digest = (str(ended.epoch), ended.digest)
            if digest != self._digest:
                if self._digest is not None:
                    self._series.remove("epoch_digest_info", *self._digest)
                self._series.set("epoch_digest_info", 1, *digest)
                self._digest = digest

    def _show_position(self, clock: EpochClock, backlog: int) -> None:
        if backlog >= 0:
            self._show({"lag_records": backlog})
        if clock.epoch < 0:
            return
        behind = max(0.0, time.time() - clock.watermark_ms / 1000)
        self._show(
            {
                "lag_seconds": behind if backlog > 0 else 0.0,
                "watermark_timestamp_seconds": clock.watermark_ms / 1000,
                "epoch": clock.epoch,
                "epoch_end_timestamp_seconds": clock.end_ms / 1000,
                "late_records": clock.late,
            }
        )

    def _show_learner(self, learner: Learner) -> None:
        examples = learner.examples  # a thread may be learning: losses are to be of no fewer examples than are shown
        self._show_losses(learner)
        self._show_quality(learner)
        described = learner.describe()
        self._mixture = mixture_of(described)
        for name, values in (("mixture_weight", self._mixture.weights), ("mixture_share", self._mixture.shares)):
            for predictor, value in values.items():
                self._series.set(name, value, predictor)
        self._show(
            {
                "learned_examples": examples,
                "features_per_example": learner.features_per_example,
                "truncated_examples": learner.truncated,
                **{name: value for name, value in described.gauges.items() if name in GAUGES},
            }
        )
        self._further = {name: float(value) for name, value in described.gauges.items() if name not in GAUGES}
        for name, value in self._further.items():
            self._series.set("learner_value", value, name)

    def _show_losses(self, learner: Learner) -> None:
        for span, report in losses_of(learner).items():
            means = dict(zip(MEANS, report, strict=True))
            if not learner.options.mixed:
                del means["expanded_progressive_loss"]  # it is the progressive loss
            for name, value in means.items():
                self._series.set(name, value, span)
            self._losses[span] = means

    def _show_quality(self, learner: Learner) -> None:
        """Show AUC and calibration once there were two labels; NaN if a span has none, and after a third label."""
        for span, reports in qualities_of(learner).items():
            shown = self._quality.get(span, {})
            for predictor, report in reports.items():
                found = {name: float(getattr(report, name)) for name in QUALITIES}
                if predictor in shown or not all(map(math.isnan, found.values())):
                    shown = {**shown, predictor: found}
                    for name, value in found.items():
                        self._series.set(name, value, predictor, span)
            if shown:
                self._quality[span] = shown

    def _show_asked(self, early: EarlyScores) -> None:
        """Show what became of the examples that came without a label, once there is one that was judged."""
        self._asked = asked_of(early)
        for outcome, count in self._asked.examples.items():
            self._series.set("asked_examples", count, outcome)
        for span, losses in self._asked.losses.items():
            for predictor, loss in losses.items():
                self._series.set("asked_loss", loss, predictor, span)

    def show_census(self, census: Census) -> None:
        """Show how many parents and monomials there are of each degree."""
        for name, counts in census._asdict().items():
            by_degree = {str(degree): float(count) for degree, count in enumerate(counts.tolist())}
            for degree, count in by_degree.items():
                self._series.set(name, count, degree)
            self._degrees[name] = by_degree

    def remove(self) -> None:
        """Remove the partition's gauges; counters stay, because they are about this process."""
        self.state = None
        self._forget()
        self._series.clear()
