"""From a batch as it came to one as it is learned."""
