"""Exactly-once online learning on Kafka with adaptive polynomial expansion."""
