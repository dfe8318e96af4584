"""Metrics: what a plug-in publishes (`counter`, `gauge`, `histogram`), and files generated from the metrics' names:
rules for Prometheus, dashboards for Grafana."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
