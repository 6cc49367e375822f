"""Finds what would stop a worker before it does: for `stream-apple check`, and for a worker before it fences others."""
