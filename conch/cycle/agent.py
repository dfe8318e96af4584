"""The agent: think, ground, decide, act, reflect; each step a fact on the bus before the next.

The intent (`action.decided`) is stored before anything is done, the outcome after. So after a crash the stream tells
how far the cycle came: a thought without a decision is decided, an intent without an outcome has the outcome
`unknown` and is never done again. No cycle number has a gap and no id stands for two contents.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid5

import structlog

from conch.actions import Registry
from conch.bus import Bus
from conch.config import Settings
from conch.cycle.act import act, measure_goal, nothing
from conch.cycle.control import Control
from conch.cycle.decide import Decision, decide
from conch.cycle.ground import ground
from conch.cycle.memory import ActiveGoal, Memory, measured, remember
from conch.cycle.prompts import system_prompt
from conch.cycle.recover import Recovered, save
from conch.cycle.reflect import Reflection, reflect
from conch.cycle.think import think
from conch.errors import BusError, ModelError
from conch.minds import Mind, Situation
from conch.needs import initial_state, most_pressing, pressing, priorities_of
from conch.text import cut, well_formed
from conch.tools import Notes, Sandbox, Toolbox, ToolContext
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    ExperienceRecorded,
    Goal,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    PolicySet,
    PromptMessage,
    ThoughtFormed,
    ThoughtGrounded,
    action_id,
    consequence_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
)

log = structlog.get_logger(__name__)
E = TypeVar("E", bound=Event)

SNAPSHOT_CYCLES = 25
"""Cycles between two writings of the memory: what a start has to read again."""
SHOWN_FILES = 200
THOUGHT_SHOWN = 2000
MESSAGE_BYTES = 64 * 1024
MOST_BACKOFF = 60.0
"""Longest wait, in seconds, for a mind that failed, unless it asked for longer."""


@dataclass(frozen=True)
class Body:
    """What an agent acts with."""

    bus: Bus
    mind: Mind
    toolbox: Toolbox
    sandbox: Sandbox
    notes: Notes
    workspace: Path
    settings: Settings
    agentuid: str


class Agent:
    """One agent on one bus. `run` is its life."""

    def __init__(self, body: Body, recovered: Recovered, control: Control) -> None:
        self.name = body.settings.agent
        self._body, self._at, self.control = body, recovered, control
        registry: Registry = body.toolbox.registry
        self._system = system_prompt(self.name, registry.describe())
        self._registry = registry
        self.policy = _digest(body.mind.kind, body.mind.model, self._system)
        self._priorities = priorities_of(body.settings.needs)
        self._born_with = initial_state(body.settings.needs).levels
        self._mind_ever_spoke = False

    async def run(self, until: int | None) -> None:
        """Every cycle below `until` (None: until told to stop). Raises ModelError when the mind never spoke and cannot.

        Raises StoppedError, ScriptEnded when it ends for that; the cycle in hand is finished by the next run.
        """
        await self._announce()
        await self._finish_open()
        while until is None or self._at.memory.next_cycle < until:
            await self._may_go_on()
            if self.control.stopping:
                return
            began = time.monotonic()
            await self._cycle()
            number = self._at.memory.next_cycle
            if number % SNAPSHOT_CYCLES == 0:
                await self.save()
            if until is None or number < until:
                await self.control.sleep(self._body.settings.cycle.interval - (time.monotonic() - began))

    async def save(self) -> None:
        """Write the memory down."""
        await save(self._body.bus, self.name, self._body.agentuid, self._at)

    def notice(self, event: Event, seq: int) -> None:
        """Take a fact of somebody else's: needs that changed, an experience that was recorded."""
        if isinstance(event, ExperienceRecorded):
            self._body.mind.learn(event)
        self._at.memory = remember(self._at.memory, event)
        self._at.read = max(self._at.read, seq)

    # -- one cycle ---------------------------------------------------------------------------------------------------

    async def _cycle(self) -> None:
        number = self._at.memory.next_cycle
        action = action_id(self._body.agentuid, number)
        structlog.contextvars.bind_contextvars(agent_id=self.name, action_id=action)
        thought = await self._asked(lambda: think(self._body.mind, self._system, self._situation(number), self._tokens))
        situation = self._situation(number)
        await self._publish(
            ThoughtFormed(
                **self._envelope(number, ThoughtFormed),
                thought=cut(thought.text),
                need=situation.need,
                pressing=dict(situation.pressing),
                usage=thought.completion.usage,
                model=thought.completion.model,
                ms=thought.completion.ms,
            )
        )
        await self._go_on_from_thought(number)

    async def _go_on_from_thought(self, number: int) -> None:
        memory = self._at.memory
        assert memory.thought is not None
        if memory.grounded is None:
            await self._ground(number, memory.thought.thought.text)
        await self._decide(number)
        await self._act()

    async def _ground(self, number: int, thought: str) -> None:
        body = self._body
        found = ground(
            thought,
            workspace=body.workspace,
            notes=body.notes,
            tools=self._registry.names,
            goals=[active.goal for active in self._at.memory.goals.values()],
        )
        await self._publish(
            ThoughtGrounded(
                **self._envelope(number, ThoughtGrounded), claims=found.claims, memory=found.memory, ms=found.ms
            )
        )

    async def _decide(self, number: int) -> None:
        decision: Decision = await self._asked(
            lambda: decide(self._body.mind, self._system, self._situation(number), self._registry, self._tokens)
        )
        reply = decision.completion
        raw = cut(reply.text)
        await self._publish(
            ActionDecided(
                **self._envelope(number, ActionDecided),
                messages=_cut_messages(decision.messages),
                raw=raw.text,
                raw_length=raw.length,
                raw_sha256=raw.sha256,
                action=decision.action,
                constrained=reply.constrained,
                usage=reply.usage,
                model=reply.model,
                finish_reason=reply.finish_reason,
                ms=reply.ms,
            )
        )

    async def _act(self) -> None:
        memory, began = self._at.memory, time.perf_counter()
        assert memory.decided is not None
        await self._measure_new_goals()
        context = self._context()
        deed = await act(
            memory.decided.action,
            memory.decided.guard,
            toolbox=self._body.toolbox,
            context=context,
            goals=self._at.memory.goals.values(),
        )
        ms = (time.perf_counter() - began) * 1000
        await self._publish(self._taken(deed.outcome, deed.goals, ms))
        await self._aftermath()
        await self._reflect()

    def _taken(self, outcome: Any, goals: Any, ms: float) -> ActionTaken:
        memory = self._at.memory
        thought, decided, grounded = memory.thought, memory.decided, memory.grounded
        assert thought is not None
        assert decided is not None
        assert decided.cycle is not None
        return ActionTaken(
            **self._envelope(decided.cycle, ActionTaken, policy=decided.policy),
            action=decided.action,
            raw=decided.raw,
            raw_length=decided.raw_length,
            raw_sha256=decided.raw_sha256,
            outcome=outcome,
            goals=goals,
            needs=self._needs(),
            thought=thought.thought.text[:THOUGHT_SHOWN],
            memory=grounded.memory if grounded is not None else (),
            tools=tuple(self._registry.names),
            constrained=decided.constrained,
            model=decided.model,
            usage={
                "input_tokens": thought.usage.input_tokens + decided.usage.input_tokens,
                "output_tokens": thought.usage.output_tokens + decided.usage.output_tokens,
            },
            ms={
                "think": thought.ms,
                "ground": grounded.ms if grounded is not None else 0.0,
                "decide": decided.ms,
                "act": ms,
            },
        )

    async def _aftermath(self) -> None:
        """What follows from an act at once: goals reached, a message sent. Twice is once."""
        taken = self._at.memory.taken
        assert taken is not None
        for place, check in enumerate(taken.goals):
            if check.outcome == "achieved" and check.goal in self._at.memory.goals:
                await self._publish(
                    GoalReached(**self._after(taken, GoalReached, place), goal=check.goal, statement=check.statement)
                )
        if (answered := taken.outcome.answered) is not None and self._is_waiting(answered):
            text = str(taken.action.args.get("text", ""))
            await self._publish(MessageSent(**self._after(taken, MessageSent), text=text, answers=answered))

    def _is_waiting(self, message: str) -> bool:
        return any(waiting.id == message for waiting in self._at.memory.waiting)

    async def _reflect(self) -> None:
        taken = self._at.memory.taken
        assert taken is not None
        assert taken.cycle is not None
        number, settings = taken.cycle, self._body.settings.cycle
        try:
            found = await reflect(
                self._body.mind, self._system, self._situation(number), settings.reflect_every, self._tokens
            )
        except ModelError as error:
            self.control.say("mind", f"no reflection this time: {error}")
            found = Reflection()
        await self._publish(
            CycleReflected(
                **self._envelope(number, CycleReflected),
                reflection=cut(found.text).text,
                sleep=settings.interval,
                ms=found.ms,
            )
        )

    # -- after a crash -----------------------------------------------------------------------------------------------

    async def _finish_open(self) -> None:
        """Finish the cycle that a crash cut short; never repeat it."""
        memory = self._at.memory
        if memory.thought is None or memory.thought.cycle is None:
            return
        log.info("cycle.resumed", cycle=memory.thought.cycle, decided=memory.decided is not None)
        if memory.taken is not None:
            await self._aftermath()
            await self._reflect()
        elif memory.decided is not None:
            action = memory.decided.action
            outcome = nothing("none")
            if action.valid and action.kind == "TOOL":
                outcome = nothing("unknown", "the agent was stopped between the intent and its outcome")
            await self._publish(self._taken(outcome, (), 0.0))
            await self._aftermath()
            await self._reflect()
        else:
            await self._go_on_from_thought(memory.thought.cycle)

    # -- what a mind is asked with -----------------------------------------------------------------------------------

    def _situation(self, number: int) -> Situation:
        memory, body = self._at.memory, self._body
        needs = self._needs()
        grounded = memory.grounded
        return Situation(
            agent=self.name,
            cycle=number,
            needs=needs,
            pressing=pressing(needs, self._priorities),
            need=most_pressing(needs, self._priorities),
            goals=tuple(active.goal for active in memory.goals.values()),
            message=memory.waiting[0].text if memory.waiting else None,
            thought=memory.thought.thought.text if memory.thought is not None else "",
            claims=grounded.claims if grounded is not None else (),
            memory=grounded.memory if grounded is not None else (),
            recent=memory.recall(),
            files=list_files(body.workspace),
            tools=tuple(self._registry.names),
        )

    def _needs(self) -> dict[str, float]:
        known = self._at.memory.needs
        return {need: known.get(need, start) for need, start in self._born_with.items()}

    def _context(self) -> ToolContext:
        body, waiting = self._body, self._at.memory.waiting
        return ToolContext(
            workspace=body.workspace,
            sandbox=body.sandbox,
            notes=body.notes,
            settings=body.settings.tools,
            message=(waiting[0].id, waiting[0].text) if waiting else None,
        )

    async def _measure_new_goals(self) -> None:
        """A goal's measure before the first act that counts for it: what is so already is nobody's merit."""
        for active in tuple(self._at.memory.goals.values()):
            if active.best is None:
                await self._measure(active)

    async def _measure(self, active: ActiveGoal) -> None:
        body = self._body
        measure, achieved, _, error = await measure_goal(active, body.workspace, body.sandbox, self._context())
        self._at.memory = measured(self._at.memory, active.goal.id, 0.0 if error else measure)
        if achieved:
            event = GoalReached(
                **self._outside(GoalReached, f"already/{active.goal.id}"),
                goal=active.goal.id,
                statement=active.goal.statement,
            )
            await self._publish(event)

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def _asked(self, ask: Any) -> Any:
        """The mind's answer, waited for with back-off while it fails: that is no reply, and costs no cycle."""
        failures = 0
        while True:
            try:
                answer = await self.control.unless_stopped(ask())
            except ModelError as error:
                failures += 1
                if not self._mind_ever_spoke and (error.fatal or self.control.batch):
                    raise
                wait = error.retry_after or min(2.0**failures, MOST_BACKOFF) * random.uniform(0.75, 1.0)  # noqa: S311
                log.warning("mind.failed", error=str(error), wait=wait, failures=failures)
                await self.control.wait_for_mind(str(error), wait)
            else:
                self._mind_ever_spoke = True
                self.control.mind_speaks()
                return answer

    async def _may_go_on(self) -> None:
        """Wait while paused by a person, or by the hour's tokens."""
        limit = self._body.settings.mind.max_tokens_per_hour
        while not self.control.stopping:
            if limit is not None:
                now = time.time()
                until = self._at.memory.until_below(limit, now)
                if until > now:
                    await self.control.wait_for_budget(limit, until)
                    continue
            if not self.control.paused:
                return
            await self.control.wait_for_resume()

    @property
    def _tokens(self) -> int:
        return self._body.settings.mind.max_tokens

    # -- facts -------------------------------------------------------------------------------------------------------

    async def _announce(self) -> None:
        """Say what the policy's digest stands for, and set the home's goals."""
        mind = self._body.mind
        policy = PolicySet(
            **self._outside(PolicySet, f"{self.policy}/{self._at.memory.next_cycle}"),
            mind=mind.kind,
            model=mind.model,
            system_prompt=self._system,
        )
        if self._at.memory.policy != self.policy:
            await self._publish(policy)
        for goal in self._body.settings.goals:
            if goal.id not in self._at.memory.known_goals:
                await self.set_goal(goal, by="home")

    async def set_goal(self, goal: Goal, *, by: Any) -> None:
        """Make a goal active. Twice is once."""
        if goal.id not in self._at.memory.known_goals:
            await self._publish(GoalSet(**self._outside(GoalSet, goal.id), goal=goal, by=by))

    async def tell(self, text: str, sender: str, key: str) -> str:
        """A person's message; its id. `key` tells one message from another of the same words."""
        event = MessageReceived(
            **self._outside(MessageReceived, key), text=cut(well_formed(text), MESSAGE_BYTES).text, sender=sender[:100]
        )
        await self._publish(event)
        return event.id

    async def publish_outside(self, kind: type[Event], key: str, **data: Any) -> None:
        """A fact of no cycle that follows from a request."""
        await self._publish(kind.model_validate(self._outside(kind, key) | data))

    @property
    def memory(self) -> Memory:
        """What the agent knows of itself now."""
        return self._at.memory

    def status(self) -> dict[str, Any]:
        """The agent's state in a few figures, as JSON."""
        memory = self._at.memory
        return {
            "agent": self.name,
            "state": self.control.state,
            "why": self.control.why,
            "cycle": memory.next_cycle - 1,
            "needs": self._needs(),
            "goals": [
                {"id": active.goal.id, "statement": active.goal.statement, "best": active.best}
                for active in memory.goals.values()
            ],
            "waiting": [waiting.text for waiting in memory.waiting],
            "tokens_in_hour": memory.tokens_in_hour(time.time()),
            "policy": self.policy,
        }

    def _envelope(self, number: int, kind: type[Event], policy: str | None = None) -> dict[str, Any]:
        action = action_id(self._body.agentuid, number)
        return {
            "id": cycle_event_id(action, kind),
            "source": source_of(self.name, self._body.agentuid),
            "agent": self.name,
            "cycle": number,
            "action_id": action,
            "subject": action,
            "policy": policy or self.policy,
        }

    def _after(self, cause: Event, kind: type[Event], index: int = 0) -> dict[str, Any]:
        assert cause.cycle is not None
        envelope = self._envelope(cause.cycle, kind, policy=cause.policy)
        return envelope | {"id": consequence_id(cause.id, "cycle", "1", kind, index), "causation_id": cause.id}

    def _outside(self, kind: type[Event], key: str) -> dict[str, Any]:
        return {
            "id": str(uuid5(UUID(self._body.agentuid), f"{kind.TYPE}/{key}")),
            "source": source_of(self.name, self._body.agentuid),
            "agent": self.name,
            "policy": self.policy,
        }

    async def _publish(self, event: Event) -> None:
        """Store a fact, then remember it. Raises BusError when another copy of this agent said something else."""
        data = encode(event)
        if not self._body.bus.connected:
            self.control.say("bus", "the bus is gone; the agent waits for it before it goes on")
        stored = await self._body.bus.publish(subject_of(event), data, id=event.id)
        if stored.duplicate:
            there = await self._body.bus.at(stored.seq)
            if there is not None and there.data != data:
                raise BusError(
                    f"{event.TYPE} {event.id} stands on the stream with another content: does {self.name} run twice?"
                )
        log.info(event.TYPE, cycle=event.cycle, seq=stored.seq)
        self._at.memory = remember(self._at.memory, event)
        self._at.seq = max(self._at.seq, stored.seq)


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _cut_messages(messages: tuple[PromptMessage, ...]) -> tuple[PromptMessage, ...]:
    room = MESSAGE_BYTES // max(1, len(messages))
    return tuple(PromptMessage(role=message.role, content=cut(message.content, room).text) for message in messages)


def list_files(workspace: Path, most: int = SHOWN_FILES) -> tuple[str, ...]:
    """The workspace's files, relative, sorted, at most `most`; without `.git` and other hidden directories."""
    found: list[str] = []
    pending = [workspace]
    while pending and len(found) < most:
        directory = pending.pop(0)
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            continue
        for entry in entries[:most]:
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if not entry.name.startswith(".") and entry.name != "__pycache__":
                    pending.append(entry)
            elif entry.is_file():
                found.append(well_formed(str(entry.relative_to(workspace))))
    return tuple(sorted(found[:most]))
