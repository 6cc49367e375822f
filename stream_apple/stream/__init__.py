"""When things happen: what is done with a record, in which order, and what is committed together.

Each folder uses those below it alone, from the top: loop and verification; merging; snapshots and learning; partitions;
model; positions; log. Nothing here knows Kafka: `log/ports.py` has what a broker must do.
"""
