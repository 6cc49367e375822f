"""Models of equal options that learned from different examples become one: what it is made of, and who adopts it."""
