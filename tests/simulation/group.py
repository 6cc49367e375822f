"""A consumer group in memory: static members, generations, eager rebalances, and the committed offsets.

Nothing happens by itself: members are told where they stand when they ask. A rebalance waits until every member has
joined; those that let the others ask in vain for too long are removed, as a rebalance timeout does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from stream_apple.errors import ConfigurationError, FencedError
from stream_apple.stream.log.ports import AbortableError, Committed

METADATA_BYTES = 4096
"""What the broker accepts beside an offset."""
PATIENCE = 100
"""What a handful of members has, see `Group`."""


class Standing(Enum):
    """What a member is told when it asks."""

    STABLE = auto()
    REVOKE = auto()  # give up the partitions and join again
    WAIT = auto()  # joined; others have not
    ASSIGNED = auto()  # there is a generation that the member has not seen
    UNKNOWN = auto()  # removed: it took too long to ask
    FENCED = auto()  # somebody else has its identity


@dataclass
class _Member:
    id: int
    joined: bool
    share: tuple[int, ...] = ()


class Group:
    """Members of one group that share the partitions of one topic, and where they are.

    partitions  those of the topic, which the next rebalance shares out
    patience    so often may the members of a rebalance ask in vain before those that have not joined are
                removed
    """

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.patience = PATIENCE
        self.generation = 0
        self.offsets: dict[int, Committed] = {}
        self.partitions = partitions
        self._members: dict[str, _Member] = {}
        self._leader: str | None = None
        self._rebalancing = False
        self._waited = 0
        self._pending: dict[int, dict[int, Committed]] = {}
        self._ids = count(1)

    @property
    def members(self) -> list[str]:
        """Instances that the group counts in, dead or alive."""
        return sorted(self._members)

    def share(self, instance: str) -> tuple[int, ...]:
        """The partitions of a member by the present generation."""
        return self._members[instance].share if instance in self._members else ()

    def join(self, instance: str, member_id: int | None) -> int:
        """The id of the member, which is in the group, or in its next generation, from now on."""
        member = self._members.get(instance)
        if member is None:
            member = self._members[instance] = _Member(next(self._ids), joined=False)
            self._rebalance()
        elif member.id != member_id:
            # A static member is back: it takes its share over, and the others need not know.
            member.id = next(self._ids)
        elif instance == self._leader:
            self._rebalance()
        member.joined = True
        self._complete()
        return member.id

    def standing(self, instance: str, member_id: int, generation: int) -> Standing:
        """What the member has to do next."""
        member = self._members.get(instance)
        if member is None:
            return Standing.UNKNOWN
        if member.id != member_id:
            return Standing.FENCED
        if not self._rebalancing:
            return Standing.STABLE if generation == self.generation else Standing.ASSIGNED
        if not member.joined:
            return Standing.REVOKE
        self._waited += 1
        if self._waited > self.patience:
            for late in [name for name, other in self._members.items() if not other.joined]:
                self.expire(late)
        return Standing.WAIT

    def expire(self, instance: str) -> None:
        """Remove a member that was not heard of for a session; no effect if there is none."""
        if self._members.pop(instance, None) is not None:
            self._rebalance()
            self._complete()

    def shake(self) -> None:
        """Let every member give up its partitions and join again."""
        self._rebalance()
        self._complete()

    def check_commit(self, instance: str, member_id: int | None, generation: int) -> None:
        """Refuse the offsets of whoever is not a member of the present generation, by the port's verdicts."""
        member = self._members.get(instance)
        if member is not None and member_id is not None and member.id != member_id:
            raise FencedError(f"{instance}: somebody else is this member of group {self.name} (FENCED_INSTANCE_ID)")
        if member is None or member_id is None:
            raise AbortableError(f"{instance}: not a member of group {self.name} (UNKNOWN_MEMBER_ID)")
        if generation != self.generation:
            raise AbortableError(
                f"{instance}: generation {generation} of group {self.name} is not {self.generation} "
                f"(ILLEGAL_GENERATION)"
            )

    def prepare(self, transaction: int, offsets: Mapping[int, Committed]) -> None:
        """Note offsets that become valid if the transaction is committed; whose partitions they are is not asked."""
        for partition, committed in offsets.items():
            if len(committed.metadata.encode()) > METADATA_BYTES:
                raise ConfigurationError(
                    f"partition {partition}: expected at most {METADATA_BYTES} bytes of metadata, found "
                    f"{len(committed.metadata.encode())} (OFFSET_METADATA_TOO_LARGE)"
                )
        self._pending.setdefault(transaction, {}).update(offsets)

    def mark(self, transaction: int, *, committed: bool) -> None:
        """The transaction has ended."""
        offsets = self._pending.pop(transaction, {})
        if committed:
            self.offsets.update(offsets)

    def undecided(self, partition: int) -> list[int]:
        """The open transactions that may yet change the partition's offset."""
        return [number for number, offsets in self._pending.items() if partition in offsets]

    def _rebalance(self) -> None:
        if not self._rebalancing:
            self._rebalancing = True
            self._waited = 0
            for member in self._members.values():
                member.joined = False
        if self._leader not in self._members:
            self._leader = next(iter(sorted(self._members)), None)

    def _complete(self) -> None:
        if not self._rebalancing or not all(member.joined for member in self._members.values()):
            return
        self._rebalancing = False
        self.generation += 1
        members = sorted(self._members)
        for index, instance in enumerate(members):
            share, extra = divmod(self.partitions, len(members))
            first = index * share + min(index, extra)
            self._members[instance].share = tuple(range(first, first + share + (index < extra)))
