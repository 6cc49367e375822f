"""HTTP, for people, probes, Prometheus, and clients that ask for predictions: ASGI applications on one server."""
