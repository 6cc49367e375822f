"""Checks whether a joiner that starts now would find its place in both logs of every partition.

`stream-apple check` asks, and a joiner before it fences its predecessor, which goes on if the joiner can't.
"""

from collections.abc import Iterator
from contextlib import suppress

from stream_apple.adapters.kafka.admin import Cluster, Finding
from stream_apple.adapters.kafka.preflight.cluster_faults import client_faults, lasting_faults
from stream_apple.adapters.kafka.preflight.joined_before import committed_by_joiners, joined_before
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.starting_point import JoinLogs, starting_point
from stream_apple.stream.log.ports import Committed


def check_before_joining(cluster: Cluster, config: Config) -> None:
    """Return if nothing is known that would end a joiner, but for partitions, which its loop counts itself.

    Raise the ConfigurationError or GapError with which it would end, or BrokerError if no broker can be reached at the
    address that it advertises. Other brokers that don't answer are no reason.
    """
    cluster.refuse_unreachable()
    rule = JoinRule.of(config)
    partitions = cluster.topics.get(rule.impressions, 0)
    if faults := [*lasting_faults(cluster, NeededOfTopics.by_joiner(config)), *client_faults(cluster)]:
        raise ConfigurationError("; ".join(faults))
    if cluster.topics.get(rule.outcomes) != partitions:
        return
    with suppress(BrokerError):
        committed = committed_by_joiners(config, range(partitions))
        with suppress(BrokerError):
            if (text := joined_before(config, cluster, committed)) is not None:
                raise ConfigurationError(f"group {config.join.group}: {text}")
        known = {number: each for number, each in committed.items() if each is not None}
        shown, said = (cluster.log_ranges(topic, known) for topic in (rule.impressions, rule.outcomes))
        for number, each in known.items():
            logs = JoinLogs(shown[number], said[number])
            starting_point(rule, number, each, logs, config.worker.accepted_gaps)


def check_join(cluster: Cluster, config: Config) -> Iterator[Finding]:
    """Yield a finding about the group's offsets, and a fault for each partition at which `join` would refuse to go on.

    It yields nothing if topics are missing or differ in partitions, which other checks report.
    """
    rule, group = JoinRule.of(config), config.join.group
    subject, partitions = f"group {group}", cluster.topics.get(rule.impressions, 0)
    if cluster.topics.get(rule.outcomes) != partitions:
        return
    try:
        committed = committed_by_joiners(config, range(partitions))
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", subject, f"expected readable offsets, found: {error}")
        return
    shown, said = (cluster.log_ranges(topic, range(partitions)) for topic in (rule.impressions, rule.outcomes))
    known = sum(each is not None for each in committed.values())
    yield Finding("ok", subject, f"readable, partitions of {rule.impressions} with an offset: {known}")
    if (text := joined_before(config, cluster, committed)) is not None:
        yield Finding("fault", subject, text)
    for number, each in committed.items():
        yield from _partition(config, rule, number, each, JoinLogs(shown[number], said[number]))


def _partition(
    config: Config, rule: JoinRule, number: int, committed: Committed | None, logs: JoinLogs
) -> Iterator[Finding]:
    subject = f"group {config.join.group}"
    try:
        found = starting_point(rule, number, committed, logs, config.worker.accepted_gaps)
    except (ConfigurationError, GapError) as error:
        yield Finding("fault", subject, str(error))
        return
    if found.gap is not None:
        start, stop = found.gap
        text = (
            f"worker.accept_gap lets it go on without the impressions from offset {start} on, found {stop} as the first"
        )
        yield Finding("note", subject, f"{rule.impressions}-{number}: {text}")
    if found.outcomes_gone is not None:
        start, stop = found.outcomes_gone
        text = (
            f"outcomes from offset {start} up to {stop} are gone: impressions that may need them are dead letters, late"
        )
        yield Finding("note", subject, f"{rule.outcomes}-{number}: {text}")
    if found.changed:
        text = f"settings of what is joined have changed: from offset {found.position.impressions} on, they hold"
        yield Finding("note", subject, f"{rule.impressions}-{number}: {text}")
