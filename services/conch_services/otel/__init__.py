"""OpenTelemetry export: every cycle a trace, every score an event on it, sent over OTLP/HTTP."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext


@conch.service(name="otel", keeps_position=False, enabled_by="otel.endpoint")
def otel_service(context: ServiceContext) -> Service:
    """The service of this home. Raises UsageError where `otel.endpoint` names none."""
    from conch_services.otel.service import OtelService  # late: its packages are in an extra

    return OtelService(context)
