"""Metrics beside Conch's own: what a plug-in publishes (`counter`, `gauge`, `histogram`), and what is made of the names
for others: rules for Prometheus, dashboards for Grafana."""

from conch.metrics.plugins import counter, gauge, histogram

__all__ = ["counter", "gauge", "histogram"]
