"""Replicas: models that follow those of a group by reading its topics, with the replay of `verification`."""
