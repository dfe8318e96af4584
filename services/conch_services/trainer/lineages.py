"""A lineage as the service follows it: its trainer, and what the schedule goes by."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from conch.rounds import LineageTrainer, RoundPlan, TrainerMoment, is_open_round
from conch_schemas import ExperienceRecorded


@dataclass
class FollowedLineage:
    """One agent's lineage."""

    trainer: LineageTrainer
    experiences: int
    """Those of the agent, by its last cycle."""
    looked: int = 0
    """Experiences at the last look that found too little."""
    plan: RoundPlan | None = None
    """A round that a person asked for, and that has not begun."""
    preparing: asyncio.Task[RoundPlan] | None = None
    """Reads the data of a round that a person asked for."""
    is_due: bool = False
    """Whether the schedule begins a round."""
    is_changed: bool = True
    """Whether something was heard since the last step."""
    not_before: float = 0.0
    """The next step, by the monotonic clock."""
    waited: float = float("-inf")
    """When a message last waited, by the monotonic clock."""

    @property
    def is_open(self) -> bool:
        """Whether the newest round has a next step."""
        round = self.trainer.record.state.round
        return round is not None and is_open_round(round)

    def hear(self, experience: ExperienceRecorded) -> None:
        """Take an experience, new or scored anew."""
        if experience.cycle is not None:
            self.experiences = max(self.experiences, experience.cycle + 1)
        self.trainer.hear(experience)
        state = self.trainer.record.state
        self.is_changed = self.is_changed or self.is_open or state.adapter is not None

    def now(self, waiting: int = 0, deadline: float | None = None, load: float = 0.0) -> TrainerMoment:
        """What the schedule goes by."""
        state, clock = self.trainer.record.state, time.monotonic()
        if waiting:
            self.waited = clock
        round = state.round
        ended = None if state.ended is None else (datetime.now(UTC) - state.ended).total_seconds()
        return TrainerMoment(
            experiences=self.experiences,
            seen=0 if round is None else round.started.seen,
            looked=self.looked,
            since_round=ended,
            in_vain=max(state.failures, state.refusals),
            waiting=waiting,
            quiet=clock - self.waited,
            deadline=deadline,
            load=load,
        )
