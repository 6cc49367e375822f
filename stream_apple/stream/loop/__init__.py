"""The loop of a worker: what it owns, what it sends, and when it commits."""
