"""Messages, goals, pauses and approvals from people, published as events."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

from conch.cycle.approvals.answer import Said, answer_to, timed_out, waiting_act
from conch.cycle.own_goals.decision import GoalDecision, is_decided, reason_of
from conch.cycle.publish import AgentPublisher
from conch.cycle.state.memory import MOST_WAITING, AgentMemory
from conch.cycle.state.recover import RecoveredAgent
from conch.errors import UsageError
from conch.text import cut, well_formed
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    AgentPaused,
    AgentResumed,
    Goal,
    GoalAccepted,
    GoalDropped,
    GoalSet,
    MessageReceived,
)

MESSAGE_BYTES = 64 * 1024
"""Most bytes of a message, encoded; of a longer one head and tail are kept."""
MOST_GOALS = 50
"""Most active goals: each is checked after every act that may change the workspace."""
GOAL_BYTES = 8 * 1024
"""Most bytes of a goal, as JSON."""


class Inbox:
    """Publishes what people send to an agent. One request at a time, so that each sees the effect of the one before."""

    def __init__(self, facts: AgentPublisher, at: RecoveredAgent) -> None:
        self._facts, self._at = facts, at
        self._turn = asyncio.Lock()

    @property
    def _memory(self) -> AgentMemory:
        return self._at.memory

    async def tell(self, text: str, sender: str, key: str, session: str | None = None) -> tuple[str, bool]:
        """Publish a person's message; returns its id, and whether it was there before.

        `key` is the idempotency key: the same key again is the same message, published once. `session`: the
        conversation that it belongs to. Raises UsageError when too many wait.
        """
        said = cut(self._facts.masker.text(well_formed(text)), MESSAGE_BYTES).text
        message = self._facts.outside(
            MessageReceived, key, text=said, sender=well_formed(sender)[:100], session=session
        )
        async with self._turn:
            if not (again := self._memory.knows_message(message.id)):
                if not self._memory.has_room(said):
                    raise UsageError(
                        f"{len(self._memory.waiting)} messages wait for an answer already (at most {MOST_WAITING}, "
                        "512 KiB together): say it again when some are answered"
                    )
                await self._facts.publish(message)
        return message.id, again

    async def set_goal(self, goal: Goal, *, by: Any, piece: int | None = None) -> None:
        """Make a goal active; `piece`: the number of the piece of material that it comes with. Raises UsageError when
        it was set before, is too large, or too many are active."""
        if (size := len(goal.model_dump_json())) > GOAL_BYTES:
            raise UsageError(
                f"the goal {goal.id[:60]} has {size} bytes with its check, at most {GOAL_BYTES} are allowed"
            )
        async with self._turn:
            if goal.id in self._memory.known_goals or goal.id in self._memory.goals:
                raise UsageError(f"a goal {goal.id} was set before: give this one another id")
            if len(self._memory.goals) >= MOST_GOALS:
                raise UsageError(f"{MOST_GOALS} goals are active already: conch goal drop ends one")
            key = goal.id if piece is None else f"piece/{piece}"
            await self._facts.publish(self._facts.outside(GoalSet, key, goal=goal, by=by, piece=piece))

    async def drop_goal(self, goal: str, why: str) -> None:
        """End a goal. Raises UsageError when it is not active."""
        async with self._turn:
            if goal not in self._memory.goals:
                raise UsageError(f"there is no active goal {goal[:60]!r}: conch goal list shows them")
            await self._facts.publish(self._facts.outside(GoalDropped, goal, goal=goal, why=well_formed(why)[:500]))

    async def decide_goal(self, goal: str, said: GoalDecision, why: str) -> bool:
        """Publish a person's decision on a goal that the agent set itself; returns whether it was taken before.

        Raises UsageError for an acceptance after a veto, and for a goal that is over or not the agent's own.
        """
        async with self._turn:
            if is_decided(self._memory, goal, said):
                return True
            await self._facts.publish(
                self._facts.outside(GoalAccepted, goal, goal=goal, why=reason_of(why))
                if said == "accept"
                else self._facts.outside(GoalDropped, goal, goal=goal, why=reason_of(why), vetoed=True)
            )
        return False

    async def decide(self, named: str, said: Said, why: str) -> ActApproved | ActDenied:
        """Publish a person's decision on the act that waits under this id. Raises UsageError where none waits, one that
        was decided on before among them, and after its time-out."""
        async with self._turn:
            answer = answer_to(self._memory, self._facts.agent, named, said, why, datetime.now(UTC))
            await self._facts.publish(answer)
        return answer

    async def time_out(self, asked: ActAsked) -> None:
        """Publish that the act is denied, unless a decision has come."""
        async with self._turn:
            if waiting_act(self._memory) is not None:
                await self._facts.publish(timed_out(asked))

    async def wait_or_go_on(self, kind: type[AgentPaused | AgentResumed]) -> None:
        """Publish that a person paused the agent, or let it go on."""
        await self._facts.publish(self._facts.outside(kind, str(uuid.uuid4())))
