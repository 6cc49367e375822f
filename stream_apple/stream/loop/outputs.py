"""What leaves a worker: predictions and dead letters, into partitions that exist.

A prediction goes to the partition that its example came from; dead letters may fold into fewer partitions.
"""

from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.columns import keys_of
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.model.dead_letters import dead_letter
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.positions.lineage import Topics


class OutputSender:
    """Sends what came of batches, in the transaction that is open.

    topics_in_doubt  whether partitions may have been added since `check_topics`
    """

    def __init__(self, broker: Broker, topics: Topics) -> None:
        self.topics_in_doubt = True
        self._broker = broker
        self._topics = topics
        self._dead_letter_partitions = 1

    def check_topics(self) -> int:
        """Count the partitions of all topics, and return those of the examples.

        ConfigurationError if the predictions or the models topic has another number of them, or that of merged models
        more than one. Not from inside `Assignment`, see `Broker.partition_count`.
        """
        examples, predictions, dead_letters, models, merges = self._topics
        counts = {topic: self._broker.partition_count(topic) for topic in filter(None, self._topics)}
        for topic in (predictions, models):
            if counts[topic] != counts[examples]:
                raise ConfigurationError(
                    f"expected topic {topic} to have {counts[examples]} partitions, as many as {examples}, "
                    f"found {counts[topic]}"
                )
        if merges and counts[merges] != 1:
            raise ConfigurationError(
                f"expected topic {merges} to have one partition, which orders all merges, found {counts[merges]}"
            )
        self._dead_letter_partitions = counts[dead_letters]
        self.topics_in_doubt = False
        return counts[examples]

    def send(self, partition: Partition, result: BatchResult) -> None:
        """One message for each prediction and each reject, with the key and timestamp of its record."""
        number, keys = partition.number, keys_of(result.examples)
        self._broker.send_all(self._topics.predictions, number, keys, result.predictions, result.timestamps)
        topic, target = self._topics.dead_letters, number % self._dead_letter_partitions
        for reject in result.rejects:
            letter = dead_letter(
                reject, self._topics.examples, partition.lineage.model, partition.model.limits.max_record_bytes
            )
            self._broker.send(topic, target, letter.key, letter.value, reject.record.timestamp()[1], letter.headers)
