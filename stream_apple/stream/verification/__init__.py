"""Verifies that exactly the answers that the model had to give were published."""
