"""Metrics: what a plug-in publishes (`counter`, `gauge`, `histogram`), and files generated from the metrics' names:
rules for Prometheus, dashboards for Grafana."""

from conch.consumer.plugins.metrics import counter, gauge, histogram

__all__ = ["counter", "gauge", "histogram"]
