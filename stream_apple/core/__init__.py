"""The learner and the formats: arrays and bytes in, arrays and bytes out.

Nothing in here knows Kafka, a clock, a file, a log, a metric or the environment.
"""
