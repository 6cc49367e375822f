"""How a model is kept: encoded, written, restored, and read by commands that change nothing."""
