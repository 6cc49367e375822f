"""Access to Kafka by librdkafka: the broker port, read-only consumers, topics, `check`, and a producer of examples."""
