"""What a partition's model makes of records: triage, learning, outputs and rejects."""
