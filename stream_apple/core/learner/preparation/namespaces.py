"""The keys that stand for namespaces' names in batches."""

import xxhash


def space_key(name: str) -> int:
    """Return the key of a namespace, as in `Batch.spaces`."""
    return xxhash.xxh64_intdigest(name.encode())
