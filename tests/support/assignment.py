"""What a worker is told about its partitions, without the worker."""

from collections.abc import Mapping, Sequence

from stream_apple.stream.log.ports import Start


class Recorder:
    """An assignment that starts where it is told, or else at 0, and remembers what it was told.

    owned  the partitions that it has at the moment
    told   what it was told, in order
    """

    def __init__(self, positions: Mapping[int, int] | None = None, paused: Sequence[int] = ()) -> None:
        self.positions = positions
        self.paused = paused
        self.owned: list[int] = []
        self.told: list[str] = []

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """All partitions at once."""
        self.told.append("assigned")
        self.owned = list(partitions)
        return {number: Start(self._start(number), number in self.paused) for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """In order."""
        self.told.append(f"revoked {list(partitions)}")
        self._give_up(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Without warning."""
        self.told.append(f"lost {list(partitions)}")
        self._give_up(partitions)

    def _start(self, partition: int) -> int:
        return 0 if self.positions is None else self.positions[partition]

    def _give_up(self, partitions: Sequence[int]) -> None:
        self.owned = [number for number in self.owned if number not in partitions]
