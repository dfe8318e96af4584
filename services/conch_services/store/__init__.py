"""The experience store: joins the events of an act and its scores into an experience and publishes it."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext
from conch_schemas import ExperienceRecorded


@conch.service(name="store", emits=[ExperienceRecorded])
def store_service(context: ServiceContext) -> Service:
    """The store of this home."""
    from conch_services.store.consumer import StoreService

    return StoreService(context)
