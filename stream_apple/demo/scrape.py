"""What a process says of partition 0, which has all examples, in Prometheus's text format."""

import math
from typing import NamedTuple, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Samples: TypeAlias = dict[tuple[str, str], float]
"""Name without prefix, and labels but for that of the partition -> value."""

_PREFIX = "stream_apple_"
_PARTITION = "0"


class Losses(NamedTuple):
    """Mean losses of predictions made before learning; NaN before the first."""

    apple: float
    linear: float


class Reading(NamedTuple):
    """The partition's metrics at one moment.

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


def samples_of(exposition: str) -> Samples:
    """Return the partition's samples."""
    found: Samples = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.labels.get("partition") == _PARTITION:
                labels = [value for name, value in sample.labels.items() if name != "partition"]
                found[sample.name.removeprefix(_PREFIX), ",".join(labels)] = sample.value
    return found


def reading_of(exposition: str) -> Reading:
    """Return what the worker's metrics say of the partition."""
    found = samples_of(exposition)
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
