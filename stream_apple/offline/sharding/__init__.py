"""One stream learned by several learners that become one model at the ends of rounds, without Kafka."""
