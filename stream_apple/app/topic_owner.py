"""Finds out from an output topic's content which group owns it, and refuses a second group with the same examples.

Readers identify an answer by the place of its example. If two groups answer the same examples in one topic, readers
find two answers for each, and Kafka sees nothing wrong in that. An answer names its model, not its group; but the
fingerprints of a group's models are in the metadata of its committed offsets. So

    answers to our examples, and none by a model of ours    the topic is another group's, alive or not: it is refused
    some of ours among them, or no answer to our examples    it may be ours

A group that has answers of its own in the topic is not refused for those of others: it must not end because another
group was set up wrongly. The topic of dead letters is checked only for a new group: groups may share it on purpose, as
dead letters name their model. Models and merges of several groups may be in one topic, as their keys name the group.

Start-up calls this before a predecessor is fenced. Nothing here may import numpy or numba at the top.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster, Finding
from stream_apple.adapters.kafka.log_reader import CommittedReader, KafkaLogs
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import Place, Record
from stream_apple.stream.positions.lineage import Origin, Provenance, noted_model, origin_of_prediction

MOST_GROUPS = 1_000
"""The greatest number of groups that are asked whether a model is theirs: each is a request, made at the same time."""

_ASKED_S = 3.0


class _Message(NamedTuple):
    """A message of an output topic.

    origin   says which example it answers, by which model; None if it is no answer
    at_home  whether a message of this kind belongs in the topic
    """

    place: str
    origin: Origin | None
    at_home: bool


class _Role(NamedTuple):
    """The role of an output topic: the setting that names it, and the function that reads its messages."""

    setting: str
    topic: str
    read: Callable[[Record], _Message]


def check_output_topics(config: Config) -> Iterator[Finding]:
    """Yield a fault for each output topic of another group, and a note if another group writes to it as well.

    It yields nothing for faults that other checks report: no cluster, no topic, offsets of another configuration.
    """
    try:
        cluster = Cluster(config.kafka)
    except (BrokerError, ConfigurationError):
        return
    try:
        yield from _findings(config, cluster)
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", "output topics", str(error))


def refuse_topics_of_others(config: Config, cluster: Cluster) -> None:
    """Raise ConfigurationError if an output topic is another group's.

    It does not wait for a cluster that does not answer: fencing does that, and reports the reason.
    """
    try:
        findings = list(_findings(config, cluster))
    except BrokerError:
        return
    for finding in findings:
        if finding.verdict == "fault":
            raise ConfigurationError(f"{finding.subject}: {finding.text}")


def other_groups(config: Config, cluster: Cluster) -> list[str]:
    """Return all groups that this client may see except the configured one, MOST_GROUPS at most."""
    return [name for name in cluster.groups() if name != config.worker.group][:MOST_GROUPS]


def groups_of_models(config: Config, cluster: Cluster, groups: Iterable[str]) -> dict[str, str]:
    """Return for each fingerprint the first of `groups` that has committed it for the examples topic.

    Groups that this client may not see, or whose coordinator does not answer, are left out.
    """
    found: dict[str, str] = {}
    for group, noted in cluster.committed_by(groups, config.topics.examples, _ASKED_S).items():
        found = {model: group for model in map(noted_model, noted) if model is not None} | found
    return found


def _findings(config: Config, cluster: Cluster) -> Iterator[Finding]:
    ours = _models_of_the_group(config, cluster)
    while ours is not None:
        found = list(_topic_findings(config, cluster, ours))
        before = ours
        if any(finding.verdict == "fault" for finding in found):
            # Another worker of this group may have committed its first answers since the offsets were read.
            ours = _models_of_the_group(config, cluster)
        if ours == before:
            yield from found
            return


def _models_of_the_group(config: Config, cluster: Cluster) -> dict[int, list[str]] | None:
    """Return all fingerprints that each partition's model has had; None if the offsets are of another configuration."""
    provenance = Provenance.of(config)
    with closing(KafkaLogs(config, cluster, RetryPolicy(REQUEST_S))) as logs:
        noted = logs.committed_now(range(cluster.topics.get(config.topics.examples, 0)))
    try:
        return {
            number: provenance.fingerprints(number, provenance.read_metadata(number, each).lineage)
            for number, each in noted.items()
            if each is not None
        }
    except ConfigurationError:
        return None


def _topic_findings(config: Config, cluster: Cluster, ours: Mapping[int, list[str]]) -> Iterator[Finding]:
    topics = config.topics
    roles = [_Role("topics.predictions", topics.predictions, _prediction)]
    if not ours:
        roles.append(_Role("topics.dead_letters", topics.dead_letters, _dead_letter))
    for role in roles:
        if role.topic not in cluster.topics:
            continue
        places = [(role.topic, number) for number in range(cluster.topics[role.topic])]
        with closing(CommittedReader(config.kafka, config.worker.group, RetryPolicy(REQUEST_S))) as reader:
            has_ours, other = _look(reader, places, role, topics.examples, ours)
        if other is None:
            continue
        found = f"found {_described(other)}"
        if has_ours:
            text = f"{found} beside answers of this group: readers find two answers for an example"
            yield Finding("note", f"topic {role.topic}", f"{text}; `stream-apple verify` names them")
        else:
            yield Finding("fault", role.setting, _refusal(config, cluster, role, other, new=not ours))


def _prediction(record: Record) -> _Message:
    origin = origin_of_prediction(record)
    return _Message("", origin, at_home=origin is not None)


def _dead_letter(record: Record) -> _Message:
    # This imports numpy, for which the first start of a group has time.
    from stream_apple.stream.model.dead_letters import origin_of_dead_letter

    letter, prediction = origin_of_dead_letter(record), origin_of_prediction(record)
    # Other systems may have their dead letters there, in any form; but predictions don't belong there.
    return _Message("", letter or prediction, at_home=letter is not None or prediction is None)


def _look(
    reader: CommittedReader, places: list[Place], role: _Role, examples: str, ours: Mapping[int, list[str]]
) -> tuple[bool, _Message | None]:
    """Read the ends of the partitions until it is known whose the topic is; BrokerError if nothing comes.

    Return whether it has answers of this group, and a message that is not this group's, if there is one.
    """
    found_ours, other = False, None
    for records in reader.tails(places):
        found_ours = False
        for topic, record in records:
            message = role.read(record)._replace(place=f"{topic}-{record.partition()}@{record.offset()}")
            origin = message.origin
            answers_us = origin is not None and origin.topic == examples
            if origin is not None and answers_us and origin.model in ours.get(origin.partition, ()):
                found_ours = True
            elif (answers_us or not message.at_home) and (other is None or other.origin is None):
                other = message
        if found_ours or (other is not None and not ours):
            break
    return found_ours, other


def _described(message: _Message) -> str:
    if message.origin is None:
        return f"a message that is no prediction at {message.place}"
    model, topic, partition, example = message.origin
    return f"an answer of model {model} to {topic}-{partition}@{example} at {message.place}"


def _refusal(config: Config, cluster: Cluster, role: _Role, other: _Message, *, new: bool) -> str:
    group, whose = config.worker.group, ""
    but = f"while group {group} has no offset of {config.topics.examples} yet" if new else f"and none of group {group}"
    if other.origin is not None:
        owner = groups_of_models(config, cluster, other_groups(config, cluster)).get(other.origin.model)
        whose = f" of group {owner}," if owner else " of another group, or of this one, if its offsets are lost,"
    return (
        f"expected a topic that group {group} alone writes answers to {config.topics.examples} to, found "
        f"{_described(other)},{whose} {but}: readers would find two answers for an example. Set {role.setting} to "
        f"another topic, this group's own; `stream-apple topics` makes it"
    )
