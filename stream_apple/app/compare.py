"""The composition root of `stream-apple compare`: opens the topics of two groups, and has their content compared.

It reads what any reader of the topics sees (read_committed).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import starmap

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.log_reader import CommittedReader
from stream_apple.app.model_factories import settings_of
from stream_apple.comparing.group_comparison import CompareRequest, ComparisonReport, GroupComparison
from stream_apple.comparing.pairing import Placed
from stream_apple.comparing.sides import SideAnswer, SideSource, answers_in, weights_in
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import Record

LOOK_S = 15.0
"""How often it is looked, with `follow`, whether the topics are still those that are read."""


def compare_groups(
    champion: Config, challenger: Config, request: CompareRequest, stopping: Callable[[], bool] = lambda: False
) -> Iterator[ComparisonReport]:
    """Yield a report after each portion of predictions, until all is read and `complete` is set, or until `stopping()`.

    ConfigurationError if the two can't be compared, or a topic does not exist, or, with `follow`, is deleted or gets
    further partitions; BrokerError if Kafka does not answer.
    """
    check_comparable(champion, challenger)
    with ExitStack() as opened:
        examples = champion.topics.examples
        sources = [
            _source(opened, each, each.topics.predictions, partial(answers_in, examples=examples))
            for each in (champion, challenger)
        ]
        counts = [len(source.ranges) for source in sources]
        if len(set(counts)) > 1:
            raise ConfigurationError(
                f"topic {sources[1].topic}: expected as many partitions as {sources[0].topic} has, {counts[0]}, found "
                f"{counts[1]}; `stream-apple topics --alter` adds some"
            )
        if request.weighted:
            decoder = settings_of(champion).decoder()
            sources.append(_source(opened, champion, examples, partial(weights_in, decoder=decoder)))
        reports = GroupComparison(sources, request).run(stopping)
        yield from _watched(reports, champion, challenger, sources) if request.follow else reports


def check_comparable(champion: Config, challenger: Config) -> None:
    """Raise ConfigurationError unless these are two groups on one topic, whose losses mean the same."""
    one, other = champion.learner.options(), challenger.learner.options()
    for name, first, second, same in (
        ("topics.examples", champion.topics.examples, challenger.topics.examples, True),
        ("learner.loss", one.loss, other.loss, True),
        ("learner.classes", one.classes, other.classes, True),
        ("worker.group", champion.worker.group, challenger.worker.group, False),
        ("topics.predictions", champion.topics.predictions, challenger.topics.predictions, False),
    ):
        if (first == second) != same:
            kind = "the same" if same else "another one"
            raise ConfigurationError(
                f"{name}: expected {kind} in the challenger's configuration, found {first!r} and {second!r}"
            )


def _watched(
    reports: Iterable[ComparisonReport], champion: Config, challenger: Config, sources: Sequence[SideSource]
) -> Iterator[ComparisonReport]:
    """Yield the reports; ConfigurationError once a topic has not the partitions that are read."""
    due, before = time.monotonic() + LOOK_S, ""
    for told in reports:
        yield told
        if time.monotonic() >= due:
            with suppress(BrokerError):  # an outage; the readers go on trying
                first, second = (Cluster(config.kafka).topics for config in (champion, challenger))
                changed = "".join(starmap(_change, zip((first, second, first), sources, strict=False)))
                # A broker that has just come back may know no topics: it is asked twice.
                if changed and changed == before:
                    raise ConfigurationError(changed)
                before = changed
            due = time.monotonic() + LOOK_S


def _change(topics: Mapping[str, int], source: SideSource) -> str:
    """Return what has changed of a topic, of these with their numbers of partitions; "" if nothing has."""
    found = topics.get(source.topic, 0)
    if found == len(source.ranges):
        return ""
    return (
        f"topic {source.topic}: expected the partitions that it had when the comparison began, {len(source.ranges)}, "
        f"found {found or 'no such topic'}: begin again"
    )


def _source(
    opened: ExitStack, config: Config, topic: str, parsed: Callable[[Sequence[Record]], Iterable[Placed[SideAnswer]]]
) -> SideSource:
    reader = opened.enter_context(closing(CommittedReader(config.kafka, config.worker.group)))
    count = Cluster(config.kafka).partition_count(topic)
    return SideSource(topic, reader, {number: reader.committed_range(topic, number) for number in range(count)}, parsed)
