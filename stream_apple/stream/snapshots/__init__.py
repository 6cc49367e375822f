"""How a model is kept: encoded, written, restored, and read by those who only look."""
