"""One port for people, probes and Prometheus."""
