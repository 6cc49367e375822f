"""Two groups on one topic: their predictions by pairs, and whose losses are smaller, told at any time without error."""
