"""Whose model it is, where it stands, and what a committed offset says of that."""
