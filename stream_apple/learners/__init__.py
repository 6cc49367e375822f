"""The learners: how a stream of examples becomes a model."""
