"""The preparation of batches before they are learned."""
