"""The metrics of `serve`: requests, how far its models are behind, and whether they equal those of the workers."""

from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from stream_apple.monitoring.metric import BY_PARTITION, Metric, gauges, register
from stream_apple.stream.following.replica import DigestCheck, Replica, Source
from stream_apple.stream.following.replicas import Replicas

_SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

_ENDPOINTS = ("predict", "explain")
_WATCHED_STATUS = ("200", "500", "503")
"""Those of which an alert is a share."""

SERVING_METRICS = (
    Metric("serve_info", Gauge, "1, with what this replica serves.", ("group", "topic", "model", "follow")),
    Metric("serve_ready", Gauge, "1 if all models are ready, else 0."),
    Metric("serve_requests_total", Counter, "Requests by endpoint and status of HTTP.", ("endpoint", "status")),
    Metric(
        "serve_request_seconds",
        Histogram,
        "Time from a request's head to its reply, by endpoint.",
        ("endpoint",),
        _SECONDS,
    ),
    *gauges(
        BY_PARTITION,
        serve_lag_records=(
            "Offsets between the model and the end of the log; where snapshots are followed, what is committed."
        ),
        serve_lag_seconds=(
            "Time since the log held no more than the model has learned by now; grows while Kafka is not reached."
        ),
        serve_model_age_seconds="Time since the group had committed no more than the model has learned by now.",
    ),
    Metric(
        "serve_digest_checks_total",
        Counter,
        "Snapshots of the group that the model was held against: equal, different, or missed.",
        ("partition", "outcome"),
    ),
    Metric("serve_restores_total", Counter, "Times that the model was made anew from what is in Kafka.", BY_PARTITION),
)


class ServingMetrics:
    """Keeps these metrics, as the `ReplicaRecorder` of replicas; `registry` has them."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._all = register(SERVING_METRICS, self.registry)
        # Series that came into being with their first count would hide it from rate() and increase().
        for endpoint, status in product(_ENDPOINTS, _WATCHED_STATUS):
            self._all["serve_requests_total"].labels(endpoint, status)

    def describe(self, group: str, topic: str, model: str, follow: Source) -> None:
        """Set the labels of `serve_info`."""
        self._all["serve_info"].labels(group, topic, model, follow).set(1)

    def watch(self, replicas: Replicas) -> None:
        """Read from these replicas at every scrape whether they are ready."""
        self._all["serve_ready"].set_function(lambda: float(replicas.ready))

    def following(self, replica: Replica) -> None:
        """Read the replica's lags at every scrape."""
        number = str(replica.number)
        self._all["serve_lag_records"].labels(number).set_function(lambda: replica.total_lag.records)
        self._all["serve_lag_seconds"].labels(number).set_function(lambda: replica.total_lag.seconds)
        self._all["serve_model_age_seconds"].labels(number).set_function(lambda: replica.own_lag.seconds)
        for outcome in DigestCheck:
            self._all["serve_digest_checks_total"].labels(number, outcome.value)
        self._all["serve_restores_total"].labels(number)

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request with this status, which took `seconds`."""
        self._all["serve_requests_total"].labels(endpoint, str(status)).inc()
        self._all["serve_request_seconds"].labels(endpoint).observe(seconds)

    def checked(self, partition: int, outcome: DigestCheck) -> None:
        """Count a comparison of a model with a snapshot of the group."""
        self._all["serve_digest_checks_total"].labels(str(partition), outcome.value).inc()

    def restored(self, partition: int) -> None:
        """Count a model that was made anew."""
        self._all["serve_restores_total"].labels(str(partition)).inc()
