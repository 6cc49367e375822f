"""Merging of models that have equal options and learned from different examples; and the adoption of the result."""
