"""When things happen: what is done with a record, in which order, and what is committed together.

Knows the ports of `ports.py`, not Kafka.
"""
