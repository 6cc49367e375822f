"""The HTTP port of a worker, for people, probes and Prometheus."""
