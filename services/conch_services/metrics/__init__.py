"""The metrics service: facts of the bus as Prometheus metrics, served on loopback."""
