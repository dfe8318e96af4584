"""The store: joins the facts of an act into an experience and says so."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext
from conch_schemas import ExperienceRecorded


@conch.service(name="store", emits=[ExperienceRecorded])
def store_service(context: ServiceContext) -> Service:
    """The store of this home."""
    from conch_services.store.consumer import StoreService

    return StoreService(context)
