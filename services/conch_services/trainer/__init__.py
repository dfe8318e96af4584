"""The trainer service: trains adapters of the agents' model on their experiences, gates, tries and promotes them."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext
from conch_schemas import (
    AdapterGated,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterTried,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
)

_SAYS = (
    TrainingStarted,
    TrainingProgressed,
    TrainingFinished,
    TrainingFailed,
    AdapterGated,
    AdapterTried,
    AdapterRefused,
    AdapterPromoted,
    AdapterRolledBack,
)


@conch.service(name="trainer", emits=_SAYS, keeps_position=False, enabled_by="training.enabled")
def trainer_service(context: ServiceContext) -> Service:
    """The service that trains the lineages of this home's agents."""
    from conch_services.trainer.service import TrainerService

    return TrainerService(context)
