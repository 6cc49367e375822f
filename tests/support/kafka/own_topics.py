"""Configurations and topics that a test has to itself on a broker that it shares."""

import uuid

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.topics import create_topics

from stream_apple.config import Config, load


def own_config(bootstrap: str) -> Config:
    """A configuration whose topics and group nobody else uses."""
    own = uuid.uuid4().hex[:12]
    environ = {
        "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": bootstrap,
        "STREAM_APPLE_WORKER__GROUP": f"group-{own}",
    }
    for role in ("examples", "predictions", "dead_letters", "models", "merges"):
        environ[f"STREAM_APPLE_TOPICS__{role.upper()}"] = f"{role}-{own}"
    return load(None, environ)


def make_topic(config: Config, name: str, partitions: int = 1, **settings: str) -> None:
    """A topic with these settings, underscores for dots."""
    topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in settings.items()})
    create_topics(str(config.kafka["bootstrap.servers"]), topic)
