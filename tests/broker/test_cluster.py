"""The three brokers that tests break: what is replicated, who coordinates, and which way clients come."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from support.kafka.cluster import SIZE, Cluster, coordinator_partition
from support.topics import read_all, unique_topics
from support.waiting import DEADLINE_S, wait_until


def test_it_outlives_its_coordinator(jars: Path, tmp_path: Path) -> None:
    """Everything has three replicas, clients come through the proxies, and two brokers do the work of three."""
    with Cluster(tmp_path, jars) as cluster:
        topic = unique_topics(cluster.bootstrap)("topic", 3)
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        producer = Producer({**client, "transactional.id": topic})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        producer.produce(topic, b"before", partition=0)
        producer.commit_transaction(DEADLINE_S)
        consumer = Consumer({**client, "group.id": topic})
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        consumer.close()
        wait_until(lambda: cluster.in_sync(topic, "__transaction_state", "__consumer_offsets"), "all replicas in sync")
        assert len(AdminClient(client).list_topics(timeout=DEADLINE_S).brokers) == SIZE
        assert any(proxy.seen["EndTxn commit"] for proxy in cluster.proxies)

        number = cluster.leader("__transaction_state", coordinator_partition(topic))
        assert cluster.proxies[number].seen["EndTxn commit"] == 1
        cluster.brokers[number].kill()
        producer.begin_transaction()
        producer.produce(topic, b"after", partition=0)
        producer.commit_transaction(DEADLINE_S)
        cluster.start([number])
        wait_until(lambda: cluster.in_sync(topic, "__transaction_state"), "all replicas in sync again")
        assert [message.value() for message in read_all(cluster.bootstrap, topic, 3)] == [b"before", b"after"]
