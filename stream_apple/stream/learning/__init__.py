"""Models that learn, several at once: who works on which, and on what threads."""
