"""A schema registry, and what records that are framed by its schemas hold.

schema_registry.py  asks the registry, and keeps what it has said
avro_payloads.py    Avro -> Python's own types
protobuf_payloads.py  Protocol Buffers -> Python's own types
"""
