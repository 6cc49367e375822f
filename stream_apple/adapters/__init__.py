"""The outside world, one technology in each file: Kafka and the schema registry."""
