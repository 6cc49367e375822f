"""The composition roots: how the parts of a worker, of `verify` and of `inspect` are put together."""
