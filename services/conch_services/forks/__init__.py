"""The forks service: makes candidates for cycles that are worth it, within a budget, while their agent is idle."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext
from conch_schemas import ForkScored


@conch.service(name="forks", emits=[ForkScored], keeps_position=False, enabled_by="forks.per_hour")
def forks_service(context: ServiceContext) -> Service:
    """The service that forks cycles of this home's agents."""
    from conch_services.forks.service import ForkService

    return ForkService(context)
