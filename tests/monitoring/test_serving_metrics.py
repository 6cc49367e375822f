"""The numbers of `serve` are those of its requests and of its replicas, at the moment at which somebody asks."""

from prometheus_client import generate_latest

from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.serving_metrics import SERVING_METRICS, ServingMetrics
from stream_apple.stream.following.replica import DigestCheck


def test_every_metric_is_there_from_the_start() -> None:
    """And counts what it is told."""
    metrics = ServingMetrics()
    metrics.describe("group", "examples", "model", "log")
    metrics.request("predict", 200, 0.001)
    metrics.checked(3, DigestCheck.DIFFERENT)
    metrics.restored(3)
    text = generate_latest(metrics.registry).decode()
    assert [
        each.name for each in SERVING_METRICS if f"# TYPE {PREFIX}{each.name.removesuffix('_total')}" not in text
    ] == []
    for line in (
        'serve_info{follow="log",group="group",model="model",topic="examples"} 1.0',
        'serve_requests_total{endpoint="predict",status="200"} 1.0',
        'serve_requests_total{endpoint="predict",status="503"} 0.0',
        'serve_request_seconds_bucket{endpoint="predict",le="0.001"} 1.0',
        'serve_digest_checks_total{outcome="different",partition="3"} 1.0',
        'serve_restores_total{partition="3"} 1.0',
    ):
        assert f"\n{PREFIX}{line}\n" in text
    assert "_created{" not in text
