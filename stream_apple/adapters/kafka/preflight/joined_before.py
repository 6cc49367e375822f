"""Refuses to join impressions that have been joined into the same examples topic before.

A group without an offset begins with the first impression. That is right for the first joiner; but where the group's
name was changed, or where Kafka has forgotten its offsets, as it does a week after the last member has gone, each
impression would become an example a second time. Heartbeats in the outcomes topic tell: each names the group of who
wrote it and the topics between which it joins, and was committed together with an offset.

    no offset of our group, and a heartbeat by whomever for our topics    joined before: refused
    a heartbeat that covers more impressions than there are               the topic was made anew: no evidence
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster
from stream_apple.adapters.kafka.log_reader import CommittedReader, committed_now
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.stream.joining.own_messages import HeartbeatOrigin, origin_of_heartbeat
from stream_apple.stream.log.ports import Committed


class _Evidence(NamedTuple):
    """A heartbeat that says that a partition's impressions were joined, and its offset in the outcomes topic."""

    offset: int
    origin: HeartbeatOrigin


Offsets = Mapping[int, Committed | None]


def joined_before(config: Config, cluster: Cluster, committed: Offsets) -> str | None:
    """Return a text if impressions have been joined into this examples topic, and the group has no offset of them.

    committed  what `committed_by_joiners` returns of all partitions
    """
    join, beginning = config.join, _without_offset(committed)
    if not beginning or cluster.topics.get(join.outcomes) != len(committed):
        return None
    evidence = _evidence(config, cluster, beginning)
    # Another joiner of this group may have committed its first transaction since the offsets were read.
    beginning = _without_offset(committed_by_joiners(config, sorted(evidence))) if evidence else []
    return _refusal(config, beginning[0], evidence[beginning[0]]) if beginning else None


def _refusal(config: Config, number: int, evidence: _Evidence) -> str:
    join, (offset, (group, _, examples, _)) = config.join, evidence
    if group == join.group:
        known, back = "whose offsets are lost", ""
    else:
        known, back = "another one", f'join.group = "{group}" to go on as that one, or '
    return (
        f"expected an offset of {join.impressions}-{number} that it has committed, or impressions that nobody has "
        f"joined into {examples} yet, found no offset, and a heartbeat at {join.outcomes}-{number}@{offset} of group "
        f"{group}, {known}: each impression would become an example a second time. Set {back}topics.examples to a "
        f"new topic, with a new worker.group"
    )


def committed_by_joiners(config: Config, partitions: Collection[int]) -> Offsets:
    """Return the offsets that the group has committed, without waiting for undecided transactions."""
    join = config.join
    return committed_now(config.kafka, join.group, join.impressions, list(partitions), REQUEST_S)


def _without_offset(committed: Offsets) -> list[int]:
    """Return those of the partitions of which the group has no offset."""
    return [number for number, each in committed.items() if each is None]


def _evidence(config: Config, cluster: Cluster, partitions: Collection[int]) -> Mapping[int, _Evidence]:
    """Return the newest heartbeat of each partition that is evidence, of those in which there is one."""
    join, found = config.join, dict[int, _Evidence]()
    ours = join.impressions, config.topics.examples
    ends = {number: log.high for number, log in cluster.log_ranges(join.impressions, partitions).items()}
    left = {(join.outcomes, number) for number in partitions}
    with closing(CommittedReader(config.kafka, join.group, RetryPolicy(REQUEST_S))) as reader:
        for records in reader.tails(left):
            for _, record in records:
                number, origin = record.partition(), origin_of_heartbeat(record)
                if origin and origin[1:3] == ours and origin.covers <= ends[number]:
                    found[number] = _Evidence(record.offset(), origin)
            left -= {(join.outcomes, number) for number in found}
    return found
