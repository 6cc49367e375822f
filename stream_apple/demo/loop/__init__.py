"""`stream-apple demo --loop`: a site that asks `serve`, and whose impressions and outcomes come back as examples."""
