"""Opens the output topics of a group for one partition of the examples.

An output is read up to the end that it had when it was opened. If all partitions of the examples are verified, all
partitions of the outputs are read, so that an answer in a wrong partition is found, too.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing

from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Committed, Place
from stream_apple.stream.model.dead_letters import origin_of_dead_letter
from stream_apple.stream.positions.lineage import Identify, Topics, origin_of_prediction
from stream_apple.stream.snapshots.store import FEW_LARGE, Logs
from stream_apple.stream.verification.answer_log import AnswerLog, OutputPartition, Reach, Subject
from stream_apple.stream.walk.faults import Faults


class OutputLogs:
    """The outputs of one group; predictions are read `fetch_records` at a time."""

    def __init__(self, logs: Logs, topics: Topics, fetch_records: int) -> None:
        self._logs = logs
        self._topics = topics
        self._fetch_records = fetch_records
        self._looked_at: set[Place] = set()

    def open_up(self, opened: ExitStack, subject: Subject, faults: Faults) -> list[AnswerLog]:
        """Return the logs of predictions and dead letters, then partitions of dead letters that may have no answer."""
        topics, number = self._topics, subject.partition
        count, letters = (self._logs.partition_count(topic) for topic in (topics.examples, topics.dead_letters))

        def prediction_home(partition: int) -> int | None:
            return partition if partition < count else None

        def letter_home(partition: int) -> int | None:
            return partition % letters if partition < count else None

        outputs = [self._output(topics.predictions, number, origin_of_prediction, prediction_home)] + [
            self._output(topics.dead_letters, partition, origin_of_dead_letter, letter_home)
            for partition in (number % letters, *range(count + number, letters, count))
        ]

        def committed(found: Mapping[int, Committed | None]) -> int:
            told = found[number]
            return subject.answered.stop if told is None else told.offset

        # The ends of the outputs are known by now, so all their answers are to examples within these bounds.
        reach = Reach(
            self._logs.log_range(topics.examples, number).high,
            committed(self._logs.committed_now([number])),
            lambda: committed(self._logs.decided([number])),
        )
        logs = []
        for output in outputs:
            fetch = self._fetch_records if output.topic == topics.predictions else FEW_LARGE
            scan = LogScan(self._logs, output.topic, output.partition, range(output.low, output.end), fetch)
            logs.append(AnswerLog(opened.enter_context(closing(scan)), output, subject, reach, faults))
        return logs

    def _output(
        self, topic: str, partition: int, identify: Identify, home: Callable[[int], int | None]
    ) -> OutputPartition:
        log, place = self._logs.log_range(topic, partition), (topic, partition)
        first_look = place not in self._looked_at
        self._looked_at.add(place)
        one_group = topic == self._topics.predictions
        return OutputPartition(topic, partition, log.low, log.high, identify, home, one_group, first_look)
