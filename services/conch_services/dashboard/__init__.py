"""The dashboard service: web pages, a live stream and an HTTP API that show the agent, its rewards and its bus."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext


@conch.service(name="dashboard", keeps_position=False, enabled_by="ui.enabled")
def dashboard_service(context: ServiceContext) -> Service:
    """The service that shows this home; in `conch run` in a process of its own."""
    from conch_services.dashboard.service import DashboardService  # late: web packages take half a second to import

    return DashboardService(context)
