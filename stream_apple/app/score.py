"""The composition root of `stream-apple score`: scores instances with a group's model as it was at any moment."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config
from stream_apple.errors import InputFileError
from stream_apple.http.serving.answering import as_of_facts, prediction_facts, read_instances
from stream_apple.http.serving.questions import Instance, Questions
from stream_apple.stream.model.instances import BadInstancesError, InstanceFault, InstanceReader, score
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import rebuild

_AT_ONCE = 1_000


def scored(config: Config, moment: Moment, lines: Iterable[tuple[int, str]], name: str) -> Iterator[dict[str, Any]]:
    """Yield for each line, an instance in JSON, the prediction that `serve` would have given at `moment`.

    lines  with their numbers, of a file that is called `name`

    InputFileError for a line that is no instance; ConfigurationError if the group has committed no offset of the
    partition; otherwise it raises what `rebuild` and `SnapshotStore.newest` do.
    """
    with closing(KafkaLogs(config)) as logs, closing(sources_of(config, logs)) as sources:
        committed = logs.committed_of(moment.partition)
        model = rebuild(sources, sources.newest(moment.partition, committed), committed, moment)
    settings = settings_of(config)
    reader = InstanceReader(settings)
    questions = Questions(_AT_ONCE, mapped=settings.mapped)
    as_of = as_of_facts(Moment.of(model), model.lineage.model)
    left = ((number, line) for number, line in lines if line.strip())
    while portion := list(islice(left, _AT_ONCE)):
        try:
            instances = questions.instances([line.encode() for _, line in portion])
            _check_partitions(instances, moment)
            batch = read_instances(reader, instances)
        except BadInstancesError as error:
            fault = error.faults[0]
            raise InputFileError(f"{name}:{portion[fault.instance][0]}: {fault.message}") from error
        for each in score(model, batch):
            yield prediction_facts(each) | {"as_of": as_of}


def _check_partitions(instances: Sequence[Instance], moment: Moment) -> None:
    """Raise BadInstancesError if an instance names another partition than the one whose model is to score it."""
    for index, each in enumerate(instances):
        if each.partition not in {None, moment.partition}:
            text = f"expected partition {moment.partition}, as --as-of has it, found partition {each.partition}"
            raise BadInstancesError([InstanceFault(index, "bad_partition", text)])
