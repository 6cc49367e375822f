"""Kafka, by librdkafka: the broker port, read-only consumers, the topics, `check`, and a producer of examples."""
