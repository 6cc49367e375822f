"""Compile every kernel before the group is joined, by sending made-up records down the real path.

Compiling takes up to a minute, in which a member of a group would hold partitions and do nothing.
"""

from dataclasses import asdict
from typing import NamedTuple

from stream_apple.core.jit import is_complete, note_complete
from stream_apple.learners.systems import merging_of, ngrams_of, warm_up_learning
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_names import names_in
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.positions.lineage import Lineage


class _Sample(NamedTuple):
    """Stands in for a record, which no log has."""

    number: int
    payload: bytes | None
    time_ms: int

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def value(self) -> bytes | None:
        return self.payload

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms

    def headers(self) -> None:
        return None


def is_warm(settings: ModelSettings) -> bool:
    """Whether `warm_up` has run for such settings, so that it finds the kernels in the cache and takes little time."""
    return is_complete(_what(settings))


def _what(settings: ModelSettings) -> str:
    """Return a text of the settings that decide which kernels are needed; of a number, whether it is zero.

    This is a guess: if it is wrong, `warm_up` compiles a kernel where none was expected.
    """
    options = asdict(settings.options).items()
    chosen = {name: value if isinstance(value, str) else bool(value) for name, value in options}
    return f"{chosen} {bool(settings.merge_every)} {settings.start is not None}"


def warm_up(settings: ModelSettings, decoder: Decoder) -> None:
    """Have a small model learn samples and end an epoch; only the compiled kernels remain."""
    # The table's size changes no code.
    small = settings._replace(options=settings.options.smallest(), start=None, mapping=None, schemas=None)
    warm_up_learning(small.options)
    if settings.merge_every:
        merging_of(small.options).warm_up_merging(small.options)
    if settings.start is not None:
        merging_of(small.options).warm_up_starting(small.options)
    decoder.warm_up()
    model = PartitionModel("warm-up", 0, Lineage(0, "0" * 16), small, small.decoder())
    named = encode_example(Example(1.0, 1.0, "id", {"a": 1.0, "b": 2.0}))
    spaces = ["f", *dict(small.options.ngrams)]
    spaced = encode_example(Example(None, 1.0, None, {space: {"a": 1.0, "b": 1.0} for space in spaces}))
    later = 1 + settings.epoch_length_ms
    packed = encode_example(Example(None, 1.0, None, {"indices": bytes(8)}))
    for value in (named, spaced, packed):
        list(names_in(value, ngrams_of(small.options)))  # the observer's thread would compile these
    model.process([_Sample(0, named, 1), _Sample(1, spaced, 1), _Sample(2, b"{", 1), _Sample(3, named, later)])
    note_complete(_what(settings))
