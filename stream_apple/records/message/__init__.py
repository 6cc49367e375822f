"""The wire format: bytes of records to batches, predictions to bytes."""
