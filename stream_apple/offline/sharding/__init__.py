"""How one stream is learned by several learners that, at the ends of rounds, become one model: without Kafka."""
