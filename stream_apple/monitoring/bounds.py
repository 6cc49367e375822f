"""Bounds of what is shown, apart from what shows it: `inspect --help` must not load a model's code."""

MOST_TOP = 200
"""The greatest number of monomials, products, and parents of a model that can be asked for."""
