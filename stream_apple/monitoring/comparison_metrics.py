"""The numbers of `compare --serve`: how champion and challenger stand, for alerts and panels."""

import math

from prometheus_client import CollectorRegistry, Gauge

from stream_apple.comparing.loss_comparison import LossStanding
from stream_apple.monitoring.metric import Metric, register

COMPARISON_METRICS = (
    Metric("comparison_info", Gauge, "1, with the groups that are compared.", ("champion", "challenger", "topic")),
    Metric("comparison_pairs", Gauge, "Examples for which the losses of both groups were compared."),
    Metric("comparison_loss", Gauge, "Mean loss over these examples, by side.", ("side",)),
    Metric(
        "comparison_gain_ratio",
        Gauge,
        "By how much the challenger's loss is smaller, as a share of the champion's; below 0 if it is larger.",
    ),
    Metric(
        "comparison_least_gain_ratio",
        Gauge,
        "The lower end of that share's confidence interval: above 0, the challenger is better for sure.",
    ),
    Metric("comparison_most_gain_ratio", Gauge, "The upper end: below 0, the champion is better for sure."),
    Metric("comparison_waiting_answers", Gauge, "Answers of a side that are ahead of the other's.", ("side",)),
)


class ComparisonMetrics:
    """Keeps these metrics; `registry` has them."""

    def __init__(self, champion: str, challenger: str, topic: str) -> None:
        self.registry = CollectorRegistry()
        self._gauges = register(COMPARISON_METRICS, self.registry)
        self._gauges["comparison_info"].labels(champion, challenger, topic).set(1)
        for name in ("gain", "least_gain", "most_gain"):
            self._gauges[f"comparison_{name}_ratio"].set(math.nan)

    def tell(self, standing: LossStanding, waiting: dict[str, int]) -> None:
        """Set all metrics from the standing of the comparison; `waiting` is by side."""
        self._gauges["comparison_pairs"].set(standing.pairs)
        self._gauges["comparison_loss"].labels("champion").set(standing.champion_loss)
        self._gauges["comparison_loss"].labels("challenger").set(standing.challenger_loss)
        self._gauges["comparison_gain_ratio"].set(standing.gain)
        self._gauges["comparison_least_gain_ratio"].set(standing.gain - standing.gain_radius)
        self._gauges["comparison_most_gain_ratio"].set(standing.gain + standing.gain_radius)
        for side, count in waiting.items():
            self._gauges["comparison_waiting_answers"].labels(side).set(count)
