"""The metrics service: turns the events of the bus into Prometheus metrics, served on loopback."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext


@conch.service(name="metrics", keeps_position=False)
def metrics_service(context: ServiceContext) -> Service:
    """The service that serves this process's metrics."""
    from conch_services.metrics.service import MetricsService

    return MetricsService(context)
