"""Where a partition stands in its life, and where its model comes from."""
