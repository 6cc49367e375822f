"""What batches have in place of a namespace's name, for the options that name one."""

import xxhash


def space_key(name: str) -> int:
    """The key of a namespace, as of `Batch.spaces`."""
    return xxhash.xxh64_intdigest(name.encode())
