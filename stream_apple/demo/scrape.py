"""What a worker says about itself over HTTP: /metrics as Prometheus reads them, and /readyz."""

import json
import math
import urllib.error
import urllib.request
from typing import NamedTuple, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Samples: TypeAlias = dict[tuple[str, str], float]
"""Name without prefix, and labels but for that of the partition -> value."""

_TIMEOUT_S = 5.0
_PREFIX = "stream_apple_"
_PARTITION = "0"

# A proxy of the environment has no way to this machine's own ports.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Losses(NamedTuple):
    """Mean losses of predictions made before learning; NaN before the first."""

    apple: float
    linear: float


class Reading(NamedTuple):
    """One partition's metrics at one moment.

    learned    examples
    rejected   examples that went to the dead letters
    lag        examples not yet read
    epoch      number of the current epoch, -1 before the first
    parents    monomials that are expanded, by degree: features, pairs, triples, ...
    """

    learned: int
    rejected: int
    lag: int
    epoch: int
    parents: tuple[int, ...]
    whole: Losses
    recent: Losses


class Scraper:
    """Asks a worker about itself and about partition 0, which has all examples."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def waiting_for(self) -> list[str]:
        """Return what the worker is waiting for before it is ready: nothing once it is."""
        try:
            answer = self._get("/readyz")
        except urllib.error.HTTPError as error:
            answer = error.read()
        reasons: list[str] = json.loads(answer)["waiting_for"]
        return reasons

    def read(self) -> Reading:
        """Return the current metrics of the partition."""
        return reading_of(self._get("/metrics").decode(), _PARTITION)

    def samples(self) -> Samples:
        """Return whatever is measured of the partition."""
        return samples_of(self._get("/metrics").decode(), _PARTITION)

    def _get(self, path: str) -> bytes:
        with _opener.open(self.address + path, timeout=_TIMEOUT_S) as reply:
            body: bytes = reply.read()
            return body


def samples_of(exposition: str, partition: str) -> Samples:
    """Return a partition's samples from Prometheus's text format."""
    found: Samples = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.labels.get("partition") == partition:
                labels = [value for name, value in sample.labels.items() if name != "partition"]
                found[sample.name.removeprefix(_PREFIX), ",".join(labels)] = sample.value
    return found


def reading_of(exposition: str, partition: str) -> Reading:
    """Return a partition's metrics from Prometheus's text format."""
    found = samples_of(exposition, partition)
    degrees = sorted(int(label) for name, label in found if name == "parents")

    def losses(span: str) -> Losses:
        return Losses(*(found.get((name, span), math.nan) for name in ("progressive_loss", "linear_progressive_loss")))

    return Reading(
        learned=int(found.get(("learned_examples", ""), 0)),
        rejected=int(found.get(("examples_total", "rejected"), 0)),
        lag=int(found.get(("lag_records", ""), 0)),
        # The gauge is 0 until the first record.
        epoch=int(found.get(("epoch", ""), 0)) or -1,
        parents=tuple(int(found["parents", str(degree)]) for degree in degrees if degree > 0),
        whole=losses("start"),
        recent=losses("recent"),
    )
