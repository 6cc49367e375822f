"""Which partition of a topic a key belongs to: the rule of Kafka's own (Java) clients, so that all producers agree.

librdkafka knows it as `murmur2`, but only as an automatic choice over all partitions of a topic.
"""

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_SEED = 0x9747B28C


def murmur2(key: bytes) -> int:
    """Return Kafka's 32-bit MurmurHash2 of `key`, unsigned."""
    whole = len(key) & ~3
    state = _SEED ^ len(key)
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ word
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of `key` among the first `partitions` (> 0) of a topic."""
    # Java's client takes the hash as signed and clears the sign; librdkafka does the same.
    return (murmur2(key) & 0x7FFFFFFF) % partitions
