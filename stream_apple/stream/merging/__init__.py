"""Partitions that learn one model together: which wait, who merges, and with which model each goes on."""
