"""The series of one partition's predictors, and their values as plain facts."""

import math
from typing import Any

from stream_apple.core.learner.learner import Learner
from stream_apple.monitoring.definitions import MEANS, QUALITIES
from stream_apple.monitoring.predictors import MixtureView, losses_of, mixture_of, qualities_of
from stream_apple.monitoring.series import GaugeSeries


class PredictorMetrics:
    """Losses, quality and mixture of one partition's model, in the partition's series."""

    def __init__(self, series: GaugeSeries) -> None:
        self._series = series
        self._losses: dict[str, dict[str, float]] = {}
        self._quality: dict[str, dict[str, dict[str, float]]] = {}
        self._mixture = MixtureView({}, {})

    def facts(self) -> dict[str, Any]:
        """Return the values of the series: losses and quality by span, and the mixture."""
        return {"losses": dict(self._losses), "quality": dict(self._quality), "mixture": self._mixture}

    def show(self, learner: Learner) -> None:
        """Show the present losses, quality and mixture of the learner's predictors."""
        for span, report in losses_of(learner).items():
            means = dict(zip(MEANS, report, strict=True))
            if not learner.options.mixed:
                del means["apple_progressive_loss"]  # it is the progressive loss, and that of other methods no apple's
            for name, value in means.items():
                self._series.set(name, value, span)
            self._losses[span] = means
        self._show_quality(learner)
        self._mixture = mixture_of(learner)
        for name, values in (("mixture_weight", self._mixture.weights), ("mixture_share", self._mixture.shares)):
            for predictor, value in values.items():
                self._series.set(name, value, predictor)

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
