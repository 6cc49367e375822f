"""The outside world, one technology in each file: Kafka and HTTP."""
