"""Partitions that learn one model together: who waits, who merges, and what each goes on with."""
