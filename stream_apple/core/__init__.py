"""What formats and learners share: batches, kernels, event time, n-grams.

Nothing in here knows Kafka, a clock, a file, a log, a metric or the environment.
"""
