"""The agent's cycle: think, ground, decide, act, reflect; each step is an event that the bus stores before the next.

The intent (`action.decided`) is stored before anything is run, the outcome after. So after a crash the stream shows how
far the cycle came: after a thought without a decision, the agent decides; an act that waits for an approval
(`act.asked`) waits on; an intent without an outcome gets the outcome `unknown` and is never run again. Cycle numbers
have no gaps, and no id has two contents.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog

from conch.bus import ReceivedEvent
from conch.config import BudgetSettings, MindSettings
from conch.cycle.act import ActionResult, act, cut_short, only_reads, runs, taken
from conch.cycle.acting.adapters import ActingAdapters, AdaptedMind
from conch.cycle.acting.pointer import PointerReader
from conch.cycle.acting.proven import AdapterProof
from conch.cycle.acting.shadow import ShadowTrial
from conch.cycle.approvals.answer import DecidedFields, guard_of, reply_fields, short_id, waiting_act
from conch.cycle.approvals.wait import ApprovalWait
from conch.cycle.budget.keeper import BudgetedMind, BudgetKeeper
from conch.cycle.context import AgentContext
from conch.cycle.control import AgentReport, Control, StoppedError
from conch.cycle.decide import DecisionResult, decide
from conch.cycle.effects.meter import TakenAct
from conch.cycle.goals import GoalBaseline, is_over, reached_by_parts, runs_program
from conch.cycle.ground import ground
from conch.cycle.hosting.draft import AnswerProgress, drafted
from conch.cycle.hosting.material import MaterialSupply
from conch.cycle.hosting.questions import WatchedMind
from conch.cycle.inbox import MOST_GOALS, Inbox
from conch.cycle.model_retry import ModelRetry
from conch.cycle.observe import Observation, Observer
from conch.cycle.own_goals.bounds import goal_objection, proposed_goal
from conch.cycle.policy import ActingPolicy
from conch.cycle.prompts.budget import UNREAD_KINDS, prompt_budget, window_budget
from conch.cycle.prompts.build import PromptLimits, deciding, system_prompt, thinking
from conch.cycle.publish import AgentPublisher
from conch.cycle.reflect import ReflectionResult, due, reflect
from conch.cycle.schedule import Schedule
from conch.cycle.sleep.sleeper import CycleBegin, Sleeper
from conch.cycle.state.episodes import episode_of, is_task, step_of, task_step
from conch.cycle.state.memory import ActiveGoal, AgentMemory, TaskEpisode, measured, remember, worked_on
from conch.cycle.state.recover import RecoveredAgent
from conch.cycle.team.steps import TeamSteps
from conch.cycle.team.workers import RoleSilentError
from conch.cycle.think import ThoughtResult, think
from conch.disk import disk_left
from conch.errors import ModelError
from conch.log import get_logger
from conch.memory import REMEMBERED_KINDS
from conch.minds import MaskedMind, Mind, Prompt, Situation
from conch.snapshots import GoalThen
from conch.text import cut
from conch.tools import CheckResult, Ruling, ToolContext, ToolPolicy, Workspace, implied_act
from conch_schemas import (
    ActAsked,
    Action,
    ActionDecided,
    ActionTaken,
    AdapterProbed,
    Constraint,
    ContextUse,
    Cost,
    CycleReflected,
    ExperienceRecorded,
    Goal,
    GoalDropped,
    GoalReached,
    GoalSet,
    MeasuredEffect,
    MemoryConsolidated,
    MessageSent,
    PolicySet,
    PromptMessage,
    TaskProgressed,
    TaskStep,
    ThoughtFormed,
    ThoughtGrounded,
    action_id,
    trace_of,
)

if TYPE_CHECKING:
    from conch.cycle.acting.generations import ReflexGenerations
    from conch.engine import TokenCounter

log = get_logger(__name__)
T = TypeVar("T")

EXPERIENCE = f".{ExperienceRecorded.TYPE}"
"""Suffix of the subject of an experience."""
REMEMBERED = tuple(f".{kind.TYPE}" for kind in REMEMBERED_KINDS)
"""Suffixes of the subjects of events that the long memory takes."""
STRICTNESS = ("allow", "ask", "deny")
"""What a policy says of an act, the strictest last."""
PROMPT_BYTES = 64 * 1024
"""Most bytes of the mind's messages that the decision event holds."""
STATUS_MESSAGES, STATUS_TEXT = 20, 200
"""Waiting messages that a status shows, and characters of each."""


class Agent:
    """One agent on one bus. `run` executes its cycles; `hear` takes the events that its reader receives meanwhile."""

    def __init__(
        self,
        agent_context: AgentContext,
        recovered: RecoveredAgent,
        control: Control,
        cycle_schedule: Schedule | None = None,
    ) -> None:
        settings, registry = agent_context.settings, agent_context.toolbox.registry
        self.name, self.control = settings.agent, control
        self._agent_context, self._at, self._registry = agent_context, recovered, registry
        masker = agent_context.masker
        self._limits = replace(prompt_limits(settings.mind, agent_context.tokens), masker=masker)
        self._system = masker.text(
            system_prompt(
                self.name, registry, agent_context.values, self._limits.budget, is_brief=self._limits.is_brief
            )
        )
        self._policy = ActingPolicy(
            agent_context.mind, settings.mind, self._system, agent_context.values.digest, registry
        )
        self._facts = AgentPublisher(
            agent_context.shared_events, self.name, agent_context.agentuid, recovered, control, self.policy, masker
        )
        self._budget = BudgetKeeper(settings, self._facts, control, recovered.end, lambda: self.memory)
        self._adapters, self._generations = self._made_adapters(), self._made_generations()
        masked: Mind = MaskedMind(agent_context.mind, masker)
        adapted = masked
        self._shadow: ShadowTrial | None = None
        if self._adapters is not None:
            adapted = AdaptedMind(masked, self._adapters, has_fallbacks=bool(settings.mind.fallbacks))
            self._shadow = ShadowTrial(
                self._adapters, BudgetedMind(masked, self._budget), registry, self._facts, control, self._cost
            )
        self._mind = WatchedMind(BudgetedMind(adapted, self._budget), agent_context.asks)
        self._patience = ModelRetry(control, settings.mind.max_tokens_per_hour, self._mind_is_heard, self._budget)
        self._proofs = itertools.count()
        self._being_stored: ThoughtGrounded | None = None
        """The thought's check, while it is stored beside the decision."""
        self._baseline = GoalBaseline(settings.effects.goal_rise)
        self._observer = Observer(agent_context)
        self.people_inbox: Inbox = Inbox(self._facts, recovered)
        self._tool_policy = ToolPolicy(settings.tools.policy, agent_context.workspace)
        self._approval = ApprovalWait(control, self.people_inbox, recovered)
        self._cycle_schedule = cycle_schedule or Schedule(settings.cycle.interval, None)
        self.team = (
            None if agent_context.team is None else TeamSteps(agent_context.team, self._facts, lambda: self.memory)
        )
        roles = 1 if agent_context.team is None else len(agent_context.team.settings.roles)
        self._sleeps = agent_context.mind.kind != "scripted"  # the lines of a script are acts that somebody wants
        self._sleeper = Sleeper(
            self._facts, control, settings.cycle, agent_context.workspace, lambda: self.memory, roles
        )
        self._long_memory = agent_context.long_memory
        if self._long_memory is not None:
            recovered.before_checkpoint = self._long_memory.flush

    async def run(self, until: int | None) -> None:
        """Run every cycle below `until` (None: until told to stop). Raises ModelError when the mind never answered and
        cannot.

        Raises StoppedError, ScriptEnded when it ends for that reason; the next run finishes the open cycle.
        """
        material = self._material()
        bring = None if material is None else partial(self._bring, material)
        await self._sleeper.wake_at_start()
        await self._take_adapter(self._first_cycle())
        await self._announce()
        await self._patience.leave(lambda: self.memory)
        if not self.control.stopping:
            await self._finish_open()
        while (until is None or self.memory.next_cycle < until) and not self._task_is_over():
            await self._patience.leave(lambda: self.memory)
            if self.control.stopping:
                return
            self._cycle_schedule.begin()
            number = self.memory.next_cycle
            await self._set_goals()
            if bring is not None:
                await bring(number)
            begun = CycleBegin(time.time_ns(), self.memory)
            await self._cycle(number)
            if (until is None or number + 1 < until) and not self._task_is_over():
                if self._shadow is not None:
                    await self._shadow.decide(self._cycle_schedule.rest())
                await self.control.sleep(self._cycle_schedule.rest())
                if until is None and self._sleeps:
                    await self._sleeper.sleep(begun, bring)

    def hear(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader. Raises FencedError when another copy of the agent runs, BusError when another
        agent has its name."""
        if self._long_memory is not None and arrived.subject.endswith(REMEMBERED) and arrived.is_event:
            self._long_memory.hear(arrived.event)
        if not arrived.subject.endswith(EXPERIENCE):
            self._facts.heard(arrived)
            self.control.look_again()
        elif arrived.is_event:
            assert isinstance(arrived.event, ExperienceRecorded)
            self._at.memory = remember(self.memory, arrived.event)
            if self._agent_context.mind.learns:
                self._agent_context.mind.learn(arrived.event)

    @property
    def memory(self) -> AgentMemory:
        """The agent's present memory."""
        return self._at.memory

    @property
    def policy(self) -> str:
        """Digest of the acting policy."""
        return self._policy.digest

    def status(self) -> AgentReport:
        """The agent's state in a few figures, as JSON."""
        memory, question = self.memory, self._mind.open
        report: AgentReport = {
            "agent": self.name,
            "state": self.control.state,
            "why": (self._patience.waits if self.control.state == "mind" else "") or self.control.why,
            "cycle": memory.next_cycle - 1,
            "needs": self._observer.needs(self.memory),
            "goals": [
                {"id": active.goal.id, "statement": active.goal.statement, "best": active.best}
                for active in memory.goals.values()
            ],
            "waiting": [waiting.text[:STATUS_TEXT] for waiting in memory.waiting[:STATUS_MESSAGES]],
            "waiting_count": len(memory.waiting),
            "tokens_in_hour": memory.tokens_in_hour(time.time()),
            "policy": self.policy,
            "mind": self._policy.mind,
            "phase": question.phase if question is not None else memory.phase,
        }
        if limits := self._budget.report():
            report["budget"] = limits
        if self.team is not None:
            report["team"] = self.team.report()
        if self.control.state == "budget" and self._patience.until is not None:
            report["until"] = datetime.fromtimestamp(self._patience.until, UTC).isoformat(timespec="seconds")
        if self.control.state == "asleep" and (until := self._sleeper.until) is not None:
            report["until"] = until.isoformat(timespec="seconds")
        if question is not None and question.is_long:
            tokens = question.progress.tokens
            report["asks"] = {"phase": question.phase, "seconds": question.seconds, "tokens": tokens}
        if (asked := waiting_act(memory)) is not None:
            report["approval"] = {
                "id": short_id(asked),
                "act": asked.action.skill,
                "until": asked.until.isoformat(),
                "why": asked.why,
            }
        return report

    def limit(self, settings: BudgetSettings) -> None:
        """Hold to these limits of the budget from now on."""
        self._budget.limit(settings)

    def draft(self) -> AnswerProgress:
        """What the agent does now for the message that waits."""
        return drafted(self.memory, self._mind.open, self._facts.masker)

    def next_prompt(self) -> Prompt:
        """The prompt that the mind would be asked with now: for a decision where there is a thought, or where none is
        asked for with words; else for that."""
        thought = self.memory.thought
        deciding_now = thought is not None and self.memory.decided is None
        number = thought.cycle if deciding_now and thought is not None else None
        situation = self._observed(self.memory.next_cycle if number is None else number).situation
        build = deciding if deciding_now or self._limits.is_brief or not self._limits.is_read else thinking
        return self._limits.masked(build(self._system, situation, self._limits))

    def _material(self) -> MaterialSupply | None:
        """What is brought to its workspace; None where nothing is, or is to be. Raises HomeError."""
        at, settings = self._agent_context, self._agent_context.settings
        if at.script is None or not settings.cycle.material or (script := at.script()) is None:
            return None
        workspace = Workspace(at.workspace, settings.tools.file_mib * 2**20)
        return MaterialSupply(script, workspace, settings.seed, self.people_inbox, lambda: self.memory)

    async def _bring(self, material: MaterialSupply, number: int) -> None:
        """Bring what is due before this cycle. What differed before is a change from outside, the material is none."""
        if not material.is_due(number):
            return
        meter = self._agent_context.meter
        if meter is not None:
            await meter.look()
        await material.bring(number)
        if meter is not None:
            await meter.brought()

    async def _announce(self) -> None:
        """Publish the policy's digest with its content, at each start, and set the home's goals."""
        await self._publish_policy()
        if self.team is not None:
            await self.team.form()
        await self._set_goals()

    async def _set_goals(self) -> None:
        """Set the goals of the settings that never were, as far as there is room for them; later ones as it comes."""
        for goal in self._goals():
            if len(self.memory.goals) >= MOST_GOALS:
                return
            if goal.id not in self.memory.known_goals:
                await self.people_inbox.set_goal(goal, by="home")

    def _goals(self) -> tuple[Goal, ...]:
        """The goals that are set at the start: the team's, else the home's."""
        team = self._agent_context.team
        own = None if team is None else team.settings.goal
        return self._agent_context.settings.goals if own is None else (own,)

    def _task_is_over(self) -> bool:
        """Whether it is a team whose goals were all set, and are reached or dropped."""
        ids, memory = {goal.id for goal in self._goals()}, self.memory
        is_set = bool(ids) and ids <= memory.known_goals
        return self.team is not None and is_set and not ids & memory.goals.keys()

    async def _announce_policy(self) -> None:
        if self.memory.policy != self.policy:
            await self._publish_policy()

    async def _publish_policy(self) -> None:
        # The position tells this policy event from earlier ones of the same policy.
        key = f"{self.policy}/{self.memory.next_cycle}/{self._at.end}"
        await self._facts.publish(self._facts.outside(PolicySet, key, **self._policy.content()))

    def _made_adapters(self) -> ActingAdapters | None:
        at = self._agent_context
        if at.adapters is None:
            return None
        return ActingAdapters(PointerReader(at.bus, self.name, at.agentuid), at.adapters, self._tell_of_proof)

    def _made_generations(self) -> ReflexGenerations | None:
        at = self._agent_context
        if at.frozen is None:
            return None
        from conch.cycle.acting.generations import ReflexGenerations

        pointer, (mind, shelf) = PointerReader(at.bus, self.name, at.agentuid), at.frozen
        return ReflexGenerations(at.bus, self.name, pointer, mind, shelf, at.settings.training, self._facts)

    async def _tell_of_proof(self, proof: AdapterProof) -> None:
        # The position and the count tell this proof from earlier ones of the same adapter.
        key = f"{proof.digest}/{self.memory.next_cycle}/{self._at.end}/{next(self._proofs)}"
        event = self._facts.outside(
            AdapterProbed,
            key,
            adapter=proof.digest,
            engine=proof.engine,
            served_as=proof.served_as,
            proven=not proof.why,
            why=proof.why,
            ms=proof.ms,
        )
        await self._facts.publish(event)

    def _first_cycle(self) -> int:
        """The cycle that was interrupted, else the next one."""
        thought = self.memory.thought
        return self.memory.next_cycle if thought is None or thought.cycle is None else thought.cycle

    async def _take_adapter(self, number: int) -> None:
        """Decide under the adapter of this cycle from now on. An engine that is away changes nothing: the question to
        it says so. Raises StoppedError when told to stop meanwhile."""
        if self._generations is not None:
            self._policy.decides_under(await self._generations.of_cycle(number))
            await self._follow()
        if self._adapters is None:
            return
        with contextlib.suppress(ModelError):
            acting = await self.control.unless_stopped(self._adapters.of_cycle(number))
            self._policy.decides_under(None if acting is None else acting.policy)
            await self._follow()

    async def _follow(self, held: Constraint = "free") -> None:
        if self._policy.follow(held):
            self._facts.policy = self.policy
            await self._announce_policy()

    # -- the steps of a cycle ----------------------------------------------------------------------------------------

    async def _cycle(self, number: int) -> None:
        self._bind(number)
        await self._take_adapter(number)
        await self._settle_goals()
        self._at.memory = self._budget.counted(self.memory)
        await self._measure_goals()
        thought = await self._think(number)
        async with self._facts.storing(thought):
            grounded = self._grounded(number, thought)
        if self._agent_context.count is not None:
            self._agent_context.count.begun(number)
        await self._decide(number, grounded)
        await self._end(number)

    async def _settle_goals(self) -> None:
        """Drop the goals whose deadline has passed; a goal whose parts are reached is reached itself."""
        now = datetime.now(UTC)
        for goal in [active.goal for active in self.memory.goals.values() if is_over(active.goal, now)]:
            why = f"its deadline {goal.deadline:%Y-%m-%d %H:%M} has passed"
            await self._facts.publish(self._facts.outside(GoalDropped, f"deadline/{goal.id}", goal=goal.id, why=why))
        while whole := reached_by_parts(self.memory.goals.values()):
            for goal in whole:
                reached = self._facts.outside(GoalReached, f"parts/{goal.id}", goal=goal.id, statement=goal.statement)
                await self._facts.publish(reached)

    async def _measure_goals(self) -> None:
        """Measure goals before the first thought: those that hold already earn no reward and are no longer active."""
        context = self._agent_context.context(None)
        new = self._baseline.new(self.memory.goals.values())
        async with self._turn(self._agent_context.tool_slots, needed=bool(new)):
            results = await self._measured_beside(new, context)
        for active, found in results:
            goal = active.goal
            self._at.memory = measured(self.memory, goal.id, found.measure)
            if found.achieved and goal.id in self.memory.goals:
                await self._facts.publish(
                    self._facts.outside(GoalReached, f"already/{goal.id}", goal=goal.id, statement=goal.statement)
                )
        await self._report_lags({active.goal.id for active, _ in results})

    async def _measured_beside(
        self, new: list[ActiveGoal], context: ToolContext
    ) -> list[tuple[ActiveGoal, CheckResult]]:
        """Measure goals; files that their checks write are no change from outside."""
        meter = self._agent_context.meter if runs_program(new) else None
        if meter is not None:
            await meter.look()
        results = await self._baseline.measure(new, context)
        if meter is not None:
            await meter.settle()
        return results

    async def _report_lags(self, measured: set[str]) -> None:
        """Of the tasks that were measured now, and of those that became tasks when a person accepted them."""
        for id, active in self.memory.goals.items():
            if is_task(active) and active.measure is not None and (id in measured or id not in self.memory.episodes):
                await self._report_lag(id, active.measure)

    async def _report_lag(self, task: str, rate: float) -> None:
        """Publish a task's test rate that changed without this agent's action: the next step is measured from it."""
        known = self.memory.episodes.get(task, TaskEpisode())
        if known.rate != rate:
            # The position tells it from another process's measure: no id may have two contents.
            key = f"{task}/{self.memory.next_cycle}/{self._at.end}"
            await self._facts.publish(
                self._facts.outside(TaskProgressed, key, episode=task, **dict(task_step(known, rate)))
            )

    async def _think(self, number: int) -> ThoughtFormed:
        """The event of the mind's thought, without secrets, not stored yet."""
        thought: ThoughtResult
        thought, observation = await self._asked(number, think)
        reply, situation = thought.completion, observation.situation
        event = self._facts.of_cycle(
            ThoughtFormed,
            number,
            thought=cut(thought.text),
            need=situation.need,
            pressing=dict(situation.pressing),
            usage=reply.usage,
            model=reply.model,
            ms=reply.ms,
            cost=self._cost(reply.cost),
        )
        return self._facts.masker.event(event)

    def _grounded(self, number: int, thought: ThoughtFormed) -> ThoughtGrounded:
        """The event of the open cycle's thought, checked."""
        found = ground(
            thought.thought.text,
            workspace=self._agent_context.workspace,
            notes=self._agent_context.notes,
            tools=self._registry.names,
            goals=[active.goal for active in self.memory.goals.values()],
            senses=self._observer.senses(self.memory),
        )
        return self._facts.of_cycle(ThoughtGrounded, number, claims=found.claims, memory=found.memory, ms=found.ms)

    async def _decide(self, number: int, grounded: ThoughtGrounded | None) -> None:
        """Ask the mind what to do; if that can be done at once, store the intent and act. What needs a person's
        approval waits for it. `grounded`: the thought's check, which is stored meanwhile; None: it is stored."""
        async with self._storing(grounded):
            decision, observation = await self._asked(
                number, lambda mind, system, situation, limits: decide(mind, system, situation, self._registry, limits)
            )
        if self._shadow is not None:
            self._shadow.decided(decision)
        reply, message, needs = self._reply(decision), observation.message, dict(observation.situation.needs)
        await self._keep(decision.prompt, message)
        guard, ruling = self._judged(decision.action)
        if guard is None and ruling.do == "ask":
            limit = timedelta(seconds=self._agent_context.settings.tools.approval_timeout)
            until, id = datetime.now(UTC) + limit, message[0] if message is not None else None
            await self._facts.publish(
                self._facts.of_cycle(ActAsked, number, why=ruling.why, until=until, message=id, **reply)
            )
            await self._decide_asked(number, message, needs)
            return
        await self._carry_out(number, reply, guard or ruling.why or None, message, needs)

    @asynccontextmanager
    async def _storing(self, grounded: ThoughtGrounded | None) -> AsyncIterator[None]:
        """Store the thought's check while the body runs, which decides with it. Left, it is stored, also where the body
        failed; cancelled, it may be, as with `publish`. A model, which is paid for each answer, is asked when it is
        stored."""
        if grounded is None or self._limits.is_read:
            if grounded is not None:
                await self._facts.publish(grounded)
            yield
            return
        async with self._facts.storing(grounded):
            self._being_stored = grounded
            try:
                yield
            finally:
                self._being_stored = None

    async def _keep(self, prompt: Prompt, message: tuple[str, str] | None) -> None:
        """Keep the decision's prompt with the workspace as it is, for forks, where that is done."""
        if self._agent_context.snapshots is not None:
            goals = tuple(
                GoalThen(goal=one.goal, best=one.best, measure=one.measure, tried=one.tried)
                for one in self.memory.goals.values()
            )
            await self._agent_context.snapshots.keep(prompt, goals, message)

    def _judged(self, action: Action) -> tuple[str | None, Ruling]:
        """Why the values block the action (None: they do not), and what the policy of tools says of it. A proposed goal
        is judged by what its check does, too."""
        acts = [action, *([] if (implied := implied_act(action)) is None else [implied])]
        guards, rulings = map(self._agent_context.values.guard, acts), [self._tool_policy.ruling(one) for one in acts]
        of_role = None if self.team is None else self.team.objection_to(action)
        strictest = max(rulings, key=lambda ruling: STRICTNESS.index(ruling.do))
        return next(filter(None, (of_role, *guards)), None), strictest

    def _goal_objection(self, goal: Goal) -> str | None:
        return goal_objection(self.memory, self._agent_context.settings.own_goals, goal, datetime.now(UTC))

    async def _decide_asked(self, number: int, message: tuple[str, str] | None, needs: dict[str, float]) -> None:
        """Wait for a person's decision on the act, and for room in the budget for one that is approved; then store the
        intent, under the policy that decided it, and act.
        Raises StoppedError when told to stop meanwhile."""
        answer, asked = await self._approval.answer(), self.memory.asked
        assert asked is not None
        if guard_of(answer) is None:
            await self._patience.leave(lambda: self.memory)  # the limits may be lower than when the act was asked for
            if self.control.stopping:
                raise StoppedError
        await self._carry_out(number, reply_fields(asked), guard_of(answer), message, needs, policy=asked.policy)

    async def _carry_out(
        self,
        number: int,
        reply: DecidedFields,
        guard: str | None,
        message: tuple[str, str] | None,
        needs: dict[str, float],
        *,
        policy: str | None = None,
    ) -> None:
        """Store the intent and act. `guard`: why it is blocked."""
        action = reply["action"]
        slots = self._agent_context.reading_slots if only_reads(action) else self._agent_context.tool_slots
        async with self._turn(slots, needed=runs(action, guard)):
            await self._facts.publish(self._facts.of_cycle(ActionDecided, number, policy=policy, guard=guard, **reply))
            result = await act(
                action,
                guard,
                toolbox=self._agent_context.toolbox,
                context=self._agent_context.context(
                    message, self._goal_objection, None if self.team is None else self.team.message_objection
                ),
                goals=self.memory.goals.values(),
                baseline=self._baseline,
                meter=self._agent_context.meter,
            )
        await self._taken(number, result, needs)

    def _reply(self, decision: DecisionResult) -> DecidedFields:
        """The fields of an event about a decision."""
        reply, raw = decision.completion, cut(decision.completion.text)
        return {
            "messages": _cut_messages(decision.prompt.messages),
            "raw": raw.text,
            "raw_length": raw.length,
            "raw_sha256": raw.sha256,
            "action": decision.action,
            "constrained": reply.constrained,
            "usage": reply.usage,
            "model": reply.model,
            "finish_reason": reply.finish_reason,
            "ms": reply.ms,
            "decoding": decision.decoding,
            "cost": self._cost(reply.cost),
        }

    async def _taken(self, number: int, result: ActionResult, needs: dict[str, float]) -> None:
        decided = self.memory.decided
        assert decided is not None
        data = taken(self.memory, result, needs, tuple(self._registry.names))
        data["episode"], data["terminal"] = episode_of(self.memory, result.goals)
        data["effect"] = self._effect(number, decided, result)
        data["message"] = self.memory.answered_message(result.outcome.answered)
        data["team"] = None if self.team is None else self.team.turn()
        act = self._facts.of_cycle(ActionTaken, number, policy=decided.policy, **data)
        if act.episode is not None:
            step = self._step_of(worked_on(self.memory, act), act)
            act = act.model_copy(update={"progress": step})
        await self._facts.publish(act)
        if self._shadow is not None:
            self._shadow.acted(act)
        await self._aftermath()

    def _step_of(self, episodes: Mapping[str, TaskEpisode], act: ActionTaken) -> TaskStep | None:
        """What an act is as a step of its task, with what a team's topology is; `episodes`: those after the act."""
        step = step_of(episodes, act)
        if step is None or self.team is None:
            return step
        topology, switched = self.team.standing()
        return step.model_copy(update={"topology": topology, "switch_committed": switched})

    def _effect(self, number: int, decided: ActionDecided, result: ActionResult) -> MeasuredEffect | None:
        """What the act brought about; None where it is not known, or not measured."""
        meter, settings = self._agent_context.meter, self._agent_context.settings
        if meter is None:
            return None
        if result.outcome.status == "unknown":
            meter.forget_workspace()
            return None
        answered = (one.text for one in self.memory.waiting if one.id == result.outcome.answered)
        tokens, window = decided.usage.input_tokens, settings.mind.deciding.context_window
        return meter.effect(
            TakenAct(
                cycle=number,
                action=decided.action,
                outcome=result.outcome,
                goals=result.goals,
                memory=self.memory,
                message=next(answered, ""),
                context=ContextUse(tokens=tokens, window=window) if tokens and window is not None else None,
                skills=self._registry.skills,
                left=self._patience.tokens_left(self.memory) | disk_left(self._agent_context.workspace),
            )
        )

    async def _aftermath(self) -> None:
        """Publish what follows from an action: reached goals, a proposed goal, an answer, the step of a team. A second
        call does nothing."""
        act = self.memory.taken
        assert act is not None
        if self.team is not None and (step := self._step_to_tell(act)) is not None:
            await self._facts.publish(step)
        for place, check in enumerate(act.goals):
            if check.outcome == "achieved" and (active := self.memory.goals.get(check.goal)) is not None:
                await self._facts.publish(
                    self._facts.after(act, GoalReached, place, goal=check.goal, statement=active.goal.statement)
                )
        if (goal := proposed_goal(act)) is not None and goal.id not in self.memory.known_goals:
            await self._facts.publish(self._facts.after(act, GoalSet, goal=goal, by="agent"))
        answered = act.outcome.answered
        if answered is not None and self.memory.is_waiting(answered):
            text = cut(str(act.action.args.get("text", ""))).text
            session = act.message.session if act.message is not None else None
            said = self._facts.after(act, MessageSent, text=text, answers=answered, session=session)
            await self._facts.publish(said)
        if self.team is not None and act.team is not None:
            await self.team.finish(act)

    def _step_to_tell(self, act: ActionTaken) -> TaskProgressed | None:
        """The event of the act's step in its task; None where it has none, or where the event is stored."""
        if act.episode is None or self.memory.step_told:
            return None
        if act.progress is None:  # an older version, cut short before the step, did not say it in the act
            act = act.model_copy(update={"progress": self._step_of(self.memory.episodes, act)})
        return act.task_step()

    async def _end(self, number: int) -> None:
        """End the cycle. The act's step is stored meanwhile: it stands in the act, so nothing waits for its event.
        Where a nearly full stream takes the end of the cycle and not the step, and the process dies before there is
        room, the event is never told."""
        act = self.memory.taken
        assert act is not None
        step = self._step_to_tell(act)
        async with contextlib.nullcontext() if step is None else self._facts.storing(step):
            await self._reflect(number)

    async def _reflect(self, number: int) -> None:
        settings = self._agent_context.settings
        found = ReflectionResult()
        if due(number, settings.cycle.reflect_every) and not self._limits.is_brief:
            situation = self._observed(number).situation
            try:
                found = await self._patience.permitted(
                    lambda: reflect(self._mind, self._system, situation, self._limits)
                )
            except (ModelError, StoppedError) as error:  # the action is done: the cycle ends without a reflection
                self.control.over("mind")
                log.warning("cycle.not_reflected", error=str(error) or "told to stop")
        await self._consolidate(number)
        await self._facts.publish(
            self._facts.of_cycle(
                CycleReflected,
                number,
                reflection=cut(found.text).text,
                sleep=settings.cycle.interval,
                usage=found.usage,
                ms=found.ms,
                cost=self._cost(found.price),
                model=found.model,
            )
        )

    async def _consolidate(self, number: int) -> None:
        """Consolidate the long memory where that is due, and publish what changed."""
        if self._long_memory is not None and (found := self._long_memory.consolidate(number)) is not None:
            await self._facts.publish(
                self._facts.of_cycle(
                    MemoryConsolidated,
                    number,
                    looked_at=found.looked_at,
                    merged=found.merged,
                    contradictions=found.contradictions,
                )
            )

    async def _finish_open(self) -> None:
        """Finish the cycle that was interrupted; nothing that it did is repeated."""
        memory = self.memory
        if memory.thought is None or (number := memory.thought.cycle) is None:
            return
        self._bind(number)
        log.info("cycle.resumed", cycle=number, decided=memory.decided is not None, taken=memory.taken is not None)
        if memory.taken is not None:
            await self._aftermath()
        elif memory.decided is not None:
            result = cut_short(memory.decided.action, memory.decided.guard)
            await self._taken(number, result, self._observer.needs(memory))
        elif memory.asked is not None:
            await self._measure_goals()
            answers = ((one.id, one.text) for one in memory.waiting if one.id == memory.asked.message)
            await self._decide_asked(number, next(answers, None), self._observer.needs(memory))
        else:
            await self._take_adapter(number)
            await self._measure_goals()
            await self._decide(number, self._grounded(number, memory.thought) if memory.grounded is None else None)
        await self._end(number)

    @asynccontextmanager
    async def _turn(self, slots: asyncio.Semaphore, *, needed: bool) -> AsyncIterator[None]:
        """Hold one of the slots for tools and checks. Raises StoppedError when told to stop while waiting for one."""
        if not needed:
            yield
            return
        await self.control.unless_stopped(slots.acquire())
        try:
            yield
        finally:
            slots.release()

    # -- questions to the mind ---------------------------------------------------------------------------------------

    async def _asked(
        self, number: int, step: Callable[[Mind, str, Situation, PromptLimits], Awaitable[T]]
    ) -> tuple[T, Observation]:
        """A mind's answer to one step, however long that takes, and the observation in which it was asked."""

        async def ask() -> tuple[T, Observation]:
            is_passed = False
            await self._agent_context.sandbox.detect_aside()  # which tools it is offered depends on that
            while True:
                observation = self._observed(number)
                if is_passed:  # the role that thought was silent: another one decides, without its thought
                    observation = replace(observation, situation=replace(observation.situation, thought="", claims=()))
                try:
                    return await step(self._mind, self._system, observation.situation, self._limits), observation
                except RoleSilentError as silent:
                    assert self.team is not None
                    await self.team.pass_on(silent)
                    is_passed = True

        answer = await self._patience.answer(ask)
        replied = answer[0]
        if isinstance(replied, DecisionResult):
            if self._adapters is not None:
                acting = self._adapters.known(replied.decoding.adapter)
                self._policy.decides_under(None if acting is None else acting.policy)
            await self._follow(replied.decoding.constraint)
        else:
            await self._follow()
        return answer

    def _observed(self, number: int) -> Observation:
        """The present observation, with the memories that fit it where the mind reads them."""
        memory = self.memory if self._being_stored is None else remember(self.memory, self._being_stored)
        found = self._observer.observation(memory, number)
        if self.team is not None:
            found = replace(found, situation=replace(found.situation, turn=self.team.shown()))
        if self._long_memory is None or not self._limits.is_read or self._limits.is_brief:
            return found
        return replace(found, situation=replace(found.situation, recalled=self._long_memory.recall(found.situation)))

    def _mind_is_heard(self) -> bool:
        return self._mind.open is not None and self._mind.open.progress.characters > 0

    def _cost(self, price: float | None) -> Cost | None:
        currency = self._agent_context.settings.mind.currency
        return None if price is None or currency is None else Cost(amount=price, currency=currency)

    def _bind(self, number: int) -> None:
        action = action_id(self._agent_context.agentuid, number)
        structlog.contextvars.bind_contextvars(agent_id=self.name, action_id=action, trace_id=trace_of(action))


def prompt_limits(settings: MindSettings, tokens: TokenCounter | None = None) -> PromptLimits:
    """Limits that fit the minds that think and decide, as far as they read a prompt, and the fallbacks whose budget or
    context window is known: the prompt fits into that. `tokens` counts for them; None: the estimate does."""
    fallbacks = [one for one in settings.fallbacks if one.kind not in UNREAD_KINDS]
    minds = [one for one in (settings.thinking, settings.deciding) if one.kind not in UNREAD_KINDS]
    behind, minds = (fallbacks, minds) if minds else ([], fallbacks)
    budgets = [prompt_budget(one) for one in minds or [settings.deciding]]
    budgets += [prompt_budget(one) for one in behind if one.prompt_tokens]
    budgets += [window_budget(one) for one in behind if one.context_window and not one.prompt_tokens]
    most = max(one.reply_tokens for one in (*(minds or [settings.deciding]), *fallbacks))
    return PromptLimits(most, min(budgets), bool(minds), tokens)


def _cut_messages(messages: tuple[PromptMessage, ...]) -> tuple[PromptMessage, ...]:
    room = PROMPT_BYTES // max(1, len(messages))
    return tuple(PromptMessage(role=message.role, content=cut(message.content, room).text) for message in messages)
