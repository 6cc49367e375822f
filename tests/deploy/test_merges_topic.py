"""What the manifests' page says of the topic of merges is what `stream-apple topics` would make, and a worker needs."""

import re

import yaml
from deploy.manifests import DEPLOY

from stream_apple.adapters.kafka.topics import RETENTION_MS, NeededTopics, written
from stream_apple.config import load

STRIMZI = DEPLOY / "components" / "strimzi"


def test_topic_and_rule() -> None:
    """The KafkaTopic has the settings of one, and the user may do with it what it may do with the models."""
    topics = load(None, {}).topics
    text = (STRIMZI / "README.md").read_text(encoding="utf-8")
    topic, rules = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    needs = NeededTopics(topics, merging=True)
    made = needs.creation(RETENTION_MS)
    needed = needs.requirements(made)[topics.merges]
    assert topic["metadata"]["name"] == topics.merges
    assert topic["spec"]["config"] == written(needed) | made[topics.merges] | {"min.insync.replicas": "2"}
    assert topic["spec"]["partitions"] == needs.partitions_of(topics.merges, 12) == 1
    user = yaml.safe_load((STRIMZI / "user.yaml").read_text(encoding="utf-8"))
    acls = user["spec"]["authorization"]["acls"]
    (models,) = [rule for rule in acls if rule["resource"]["name"] == topics.models]
    assert rules == [{**models, "resource": {**models["resource"], "name": topics.merges}}]
