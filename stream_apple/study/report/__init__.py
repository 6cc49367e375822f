"""What the runs of a study say: derived numbers, tables, pictures."""
