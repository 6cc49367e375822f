"""What a model is made of: its table and scalars, the rule it learns by, and the scratch of one example."""
