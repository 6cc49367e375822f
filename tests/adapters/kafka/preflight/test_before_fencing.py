"""What a worker finds before it fences anybody: all that would end it, and nothing that would not."""

import pytest
from adapters.kafka.preflight.test_recovery_check import Left
from confluent_kafka import Consumer, Producer, TopicPartition
from support.kafka.mock_cluster import make_mock_topics
from support.kafka.own_topics import make_topic
from support.topics import TopicFactory
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.preflight.before_fencing import check_before_fencing
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics, topic_faults
from stream_apple.adapters.kafka.topics import NeededTopics, ensure
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError, GapError, SnapshotError
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer


def look(config: Config) -> None:
    """As a worker that starts."""
    check_before_fencing(Cluster(config.kafka), config)


def faults(config: Config) -> str:
    """What is wrong with the topics of a worker, in one text."""
    return "; ".join(map(str, topic_faults(Cluster(config.kafka), NeededOfTopics.by_worker(config))))


@pytest.fixture
def left(kafka: str, topic: TopicFactory) -> Left:
    """A group that has learned five records, and saved its model in messages 3 to 7."""
    found = Left(kafka, topic)
    found.commit(5, SnapshotPointer(2, 3, 7, "0" * 32))
    return found


class TestModels:
    """What the group has committed."""

    def test_all_is_there(self, left: Left) -> None:
        """A worker of the same settings may go on; so may the first of a group."""
        look(left.config)
        left.environ["STREAM_APPLE_WORKER__GROUP"] += "-other"
        look(left.config)

    def test_other_settings(self, left: Left) -> None:
        """Whatever makes another model, the message says what to restore."""
        left.environ["STREAM_APPLE_LEARNER__LEARNING_RATE"] = "0.25"
        with pytest.raises(ConfigurationError, match=r"expected model .* found .*restore the \[learner\]"):
            look(left.config)

    def test_records_are_gone(self, left: Left) -> None:
        """Those behind the snapshot; unless the gap is accepted."""
        left.delete_before(left.config.topics.examples, 4)
        with pytest.raises(GapError, match=r'worker.accept_gap = \["0@2"\]'):
            look(left.config)
        left.environ["STREAM_APPLE_WORKER__ACCEPT_GAP"] = "0@2"
        look(left.config)

    def test_the_snapshot_is_gone(self, left: Left) -> None:
        """Its first message is enough, unless the model can be learned again from its first record on."""
        left.delete_before(left.config.topics.models, 4)
        look(left.config)
        left.delete_before(left.config.topics.examples, 1)
        with pytest.raises(SnapshotError, match="expected the snapshot in messages 3 to 7, found 4 to 9"):
            look(left.config)

    def test_another_topic_of_examples(self, left: Left, topic: TopicFactory) -> None:
        """The group has snapshots, and no offset of this topic: a mistyped name ends nobody else's work."""
        left.save(Provenance.of(left.config))
        look(left.config)
        left.environ["STREAM_APPLE_TOPICS__EXAMPLES"] = topic("examples")
        with pytest.raises(ConfigurationError, match=r"expected an offset of .* or topics\.examples was another topic"):
            look(left.config)

    def test_a_transaction_in_doubt_is_not_waited_for(self, left: Left) -> None:
        """It is a dead predecessor's, whom nobody has fenced yet, or that of one who works: it is left as it is."""
        config = left.config
        other = Producer({**config.kafka, "transactional.id": config.worker.transactional_id})
        other.init_transactions(DEADLINE_S)
        other.begin_transaction()
        member = Consumer({**config.kafka, "group.id": config.worker.group})
        position = TopicPartition(config.topics.examples, 0, 7, "of nobody")
        other.send_offsets_to_transaction([position], member.consumer_group_metadata(), DEADLINE_S)
        look(config)
        other.commit_transaction(DEADLINE_S)
        member.close()


class TestTopics:
    """What a worker can't do without, and what it can."""

    def test_fewer_dead_letters_will_do(self, config: Config) -> None:
        """They fold; settings that may harm one day are for `check` to find."""
        topics = config.topics
        for name in (topics.examples, topics.predictions):
            make_topic(config, name, 2)
        make_topic(config, topics.models, 2, cleanup_policy="compact")
        make_topic(config, topics.dead_letters, 1)
        look(config)

    @pytest.mark.parametrize("policy", ["compact", "delete,compact"])
    def test_a_log_with_holes(self, config: Config, policy: str) -> None:
        """What compaction leaves would be another model after a crash, and other examples joined."""
        topics = config.topics
        for name in (topics.predictions, topics.models, topics.dead_letters):
            make_topic(config, name)
        make_topic(config, topics.examples, cleanup_policy=policy)
        with pytest.raises(ConfigurationError, match=rf"topic {topics.examples}: cleanup\.policy: expected delete"):
            look(config)

    @pytest.mark.parametrize("policy", ["delete", "compact,delete"])
    def test_models_have_a_topic_that_keeps_them(self, config: Config, policy: str) -> None:
        """Kafka would delete the only snapshot of a quiet partition, or the topic has another purpose."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        make_topic(config, other := f"{config.topics.models}-other", cleanup_policy=policy)
        wrong = config.model_copy(update={"topics": config.topics.model_copy(update={"models": other})})
        with pytest.raises(
            ConfigurationError, match=rf"^topic {other}: cleanup\.policy: expected compact, found {policy}: any other"
        ):
            look(wrong)

    def test_more_replicas_are_required_than_there_are(self, config: Config) -> None:
        """The worker refuses what `check` reports; the examples topic, to which it does not write, may require them."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        cluster = Cluster(config.kafka)
        cluster.set_settings(config.topics.examples, {"min.insync.replicas": "2"})
        look(config)
        cluster.set_settings(config.topics.predictions, {"min.insync.replicas": "2"})
        wait_until(lambda: "min.insync.replicas" in faults(config), "the broker knows of the change")
        with pytest.raises(
            ConfigurationError, match=rf"^topic {config.topics.predictions}: min\.insync\.replicas: exp"
        ):
            look(config)

    def test_merges_have_a_topic_that_is_not_compacted(self, config: Config) -> None:
        """Of the records of who went on with which it would keep one for each partition."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        make_topic(config, config.topics.merges, cleanup_policy="compact")
        look(config)
        merging = config.model_copy(update={"merge": config.merge.model_copy(update={"mode": "average"})})
        with pytest.raises(
            ConfigurationError, match=rf"^topic {config.topics.merges}: cleanup\.policy: expected delete"
        ):
            look(merging)

    @pytest.mark.parametrize("setting", ["accept_gap", "skip"])
    def test_a_partition_that_is_not_there(self, config: Config, setting: str) -> None:
        """Its name is mistyped: what it was meant for would end the worker again."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 2)
        look(config.with_worker(**{setting: ("1@0",)}))
        with pytest.raises(
            ConfigurationError, match=rf"^worker\.{setting}: expected partitions of .* below 2, found 2@0$"
        ):
            look(config.with_worker(**{setting: ("1@0", "2@0")}))

    @pytest.mark.parametrize("role", ["predictions", "models"])
    def test_partitions_that_differ(self, config: Config, role: str) -> None:
        """One message for all faults."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 2)
        other = f"{getattr(config.topics, role)}-other"
        make_topic(config, other, 3, cleanup_policy="compact" if role == "models" else "delete")
        wrong = config.model_copy(update={"topics": config.topics.model_copy(update={role: other})})
        with pytest.raises(ConfigurationError, match=f"^topic {other}: partitions: expected 2, found 3$"):
            look(wrong)

    def test_the_embedded_cluster_is_asked_what_it_can_answer(self, mock_cluster: str) -> None:
        """The demo's worker starts on it."""
        make_mock_topics(mock_cluster, "examples", "predictions", "dead-letters", "models")
        look(load(None, {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_cluster, "STREAM_APPLE_WORKER__ID": "one"}))
