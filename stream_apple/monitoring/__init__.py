"""All that an operator sees of a worker: metrics, health, progress of recoveries, and views of models."""
