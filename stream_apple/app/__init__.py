"""The composition roots: each module makes the parts of a worker, or of a command, and puts them together."""
