"""Whether what was published is what the model had to publish."""
