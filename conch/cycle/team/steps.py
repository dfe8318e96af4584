"""The steps of a team: which role has the turn, its messages, the controller's decision, a switch of the topology.

All that happens is a fact first: the state is `AgentMemory.team`, a fold. So a step that a crash interrupted is
finished from what the stream has, and nothing of it is done twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conch.actions import render
from conch.cycle.control import TeamReport
from conch.cycle.publish import AgentPublisher
from conch.cycle.state.memory import AgentMemory
from conch.cycle.team.context import TeamContext
from conch.cycle.team.facts import TeamSwitchFacts
from conch.cycle.team.logs import ControllerLogs
from conch.cycle.team.workers import RoleSilentError
from conch.errors import ModelError
from conch.log import get_logger
from conch.minds import RoleTurn
from conch.teams import (
    PLANNER,
    RoleState,
    RouterState,
    SwitchReply,
    TeamState,
    chain_order,
    decided,
    known_topology,
    next_in_chain,
    objection,
    reachable,
    recipients,
    refusal,
    switch,
)
from conch.text import cut
from conch.tools import TELL_TOOL, recipients_of
from conch_schemas import (
    Action,
    ActionTaken,
    TeamDecided,
    TeamFormed,
    TeamLimits,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchPrepared,
    TeamTurn,
)

log = get_logger(__name__)

REPORT_OUTPUT = 600
"""Bytes of an act's output in the report of a role that sent no message itself."""


class TeamSteps:
    """The steps of one team. Every method reads the memory as it is then."""

    def __init__(self, team: TeamContext, facts: AgentPublisher, memory: Callable[[], AgentMemory]) -> None:
        self._team, self._facts, self._memory = team, facts, memory
        self._logs = ControllerLogs(team.directory)

    @property
    def state(self) -> TeamState:
        """The team as of now."""
        return self._memory().team or TeamState(roles=self._team.roles)

    @property
    def router(self) -> RouterState:
        """The router as of now."""
        return self.state.router

    async def form(self) -> None:
        """Publish what the team is, where the last `team.formed` says something else."""
        settings = self._team.settings
        state, controller = self.state, settings.controller
        key = f"{state.next_step}/{settings.model_dump_json()}"
        event = self._facts.outside(
            TeamFormed,
            key,
            team=self._team.name,
            roles=self._team.roles,
            topology=settings.topology,
            controller=controller.kind,
            ridge=controller.ridge,
            limits=TeamLimits(
                queued=settings.queued, delivered=settings.delivered, message_bytes=settings.message_bytes
            ),
        )
        stands = (state.roles, state.controller_kind, state.ridge, tuple(state.limits))
        bounds = (settings.queued, settings.delivered, settings.message_bytes)
        if state.formed is None or stands != (event.roles, event.controller, event.ridge, bounds):
            await self._facts.publish(event)

    def turn(self) -> TeamTurn:
        """The turn of the step in progress, as the act has it."""
        state = self.state
        return TeamTurn(
            team=self._team.name,
            role=state.turn,
            step=state.next_step,
            epoch=state.router.epoch,
            topology=state.router.topology,
        )

    def report(self) -> TeamReport:
        """The team in a few figures."""
        state = self.state
        return {
            "topology": state.router.topology,
            "epoch": state.router.epoch,
            "step": state.next_step,
            "turn": state.turn,
            "tokens": state.tokens,
        }

    def standing(self) -> tuple[str, bool]:
        """What the step of the task says of the topology: which is active, and whether a switch led to it since the
        step before."""
        return self.router.topology, self.state.switched_since

    def shown(self) -> RoleTurn:
        """The turn of the step in progress, as the mind sees it."""
        state, turn = self.state, self.turn()
        role = self._team.settings.roles[turn.role]
        return RoleTurn(
            team=turn.team,
            role=turn.role,
            step=turn.step,
            topology=turn.topology,
            prompt=role.prompt,
            reachable=reachable(state.router.topology, turn.role, state.roles),
            messages=tuple((message.sender, message.text) for message in state.inbox(turn.role)),
            tools=role.tools,
            turns=state.by_role.get(turn.role, RoleState()).turns,
        )

    async def pass_on(self, silent: RoleSilentError) -> None:
        """Pass the turn of a silent role to the next one. Raises ModelError while all roles are silent."""
        state = self.state
        event = self._facts.outside(
            TeamPassed,
            f"{state.next_step}/{state.turn}/{state.passes}",
            team=self._team.name,
            role=state.turn,
            step=state.next_step,
            epoch=state.router.epoch,
            why=str(silent),
        )
        log.warning("team.passed", team=self._team.name, role=state.turn, why=str(silent))
        await self._facts.publish(event)
        if self.state.passed.keys() >= {*state.roles}:
            raise ModelError(f"no role of the team {self._team.name} answers: {silent}")

    def objection_to(self, action: Action) -> str | None:
        """Why the role that has the turn may not call this tool; None: it may."""
        role = self.state.turn
        tools = self._team.settings.roles[role].tools
        if action.kind != "TOOL" or action.tool is None or tools is None or action.tool in (*tools, TELL_TOOL):
            return None
        return f"the role {role} may not use the tool {action.tool}: it has {', '.join((*tools, TELL_TOOL))}"

    def message_objection(self, to: Sequence[str], text: str) -> str | None:
        """Why the role that has the turn may not send this message; None: it may."""
        state = self.state
        return refusal(state.router, state.turn, to, text, state.roles, state.limits)

    async def finish(self, act: ActionTaken) -> None:
        """What follows from an act: the message, the reward of the last decision, the next one, a switch. A second call
        does nothing."""
        assert act.team is not None
        await self._send(act, act.team)
        await self._reward(act, act.team.step)
        if not act.terminal:  # no step of this task follows that could earn the decision's reward
            await self._decide(act, act.team.step)
        if self.router.target is not None:
            await self._switch(act, self.router.target)
        if (record := self.state.last_decision) is not None:
            self._logs.write(record)

    async def asked(self, target: str) -> SwitchReply:
        """A person's request for a topology: prepared now, committed at the end of the step."""
        why, state = self._refused(target), self.state
        if why is not None:
            return SwitchReply(why == "same", False, why, state.router.epoch)
        key = f"{state.router.epoch}/{target}/{state.next_step}/{state.decided_step}"
        event = self._facts.outside(
            TeamSwitchPrepared,
            key,
            team=self._team.name,
            epoch=state.router.epoch,
            source_topology=state.router.topology,
            target=target,
            by="user",
        )
        await self._facts.publish(event)
        return SwitchReply(True, False, "prepared", self.router.epoch)

    def _refused(self, target: str) -> str | None:
        state, of = self.state, self._team.settings.controller
        router = state.router
        return objection(
            state.coordinator,
            router.topology,
            target,
            is_prepared=router.target is not None,
            dwell=of.dwell,
            cooldown=of.cooldown,
        )

    async def _send(self, act: ActionTaken, turn: TeamTurn) -> None:
        state = self.state
        if state.messaged_step >= turn.step:
            return
        is_told = act.action.tool == TELL_TOOL and act.action.kind == "TOOL"
        if is_told and act.outcome.status != "success":
            return
        if is_told:
            to, text = recipients_of(str(act.action.args.get("to", ""))), str(act.action.args.get("text", ""))
        else:
            to, text = (self._next_reader(turn),), report_of(act, state.limits.message_bytes)
        if not text:
            return  # it rests: a silent role sends nothing
        if (why := refusal(state.router, turn.role, to, text, state.roles, state.limits)) is not None:
            log.warning("team.message_refused", team=turn.team, role=turn.role, why=why)
            return
        reached = recipients(state.router.topology, turn.role, to, state.roles)
        event = self._facts.after(
            act,
            TeamMessage,
            team=turn.team,
            sender=turn.role,
            to=reached,
            step=turn.step,
            epoch=state.router.sending_epoch,
            text=text,
            is_report=not is_told,
        )
        await self._facts.publish(event)

    def _next_reader(self, turn: TeamTurn) -> str:
        """The role that an act is reported to: in a star the planner, or by it the next worker; else the next role."""
        state = self.state
        if state.router.topology != "star":
            return next_in_chain(turn.role, state.roles)
        if turn.role != PLANNER:
            return PLANNER
        workers = chain_order(state.roles)[1:]
        last = state.last_worker
        return workers[(workers.index(last) + 1) % len(workers)] if last in workers else workers[0]

    async def _reward(self, act: ActionTaken, step: int) -> None:
        """Publish what this step earned, for the decision before it. After this step's own decision it was done."""
        state = self.state
        if state.earned is None or state.decision is None or state.decided_step >= step:
            return
        event = self._facts.after(
            act,
            TeamRewarded,
            team=self._team.name,
            decision=state.decision,
            step=state.earned.step,
            reward=state.earned.reward,
            terminal=state.earned.terminal,
        )
        await self._facts.publish(event)

    async def _decide(self, act: ActionTaken, step: int) -> None:
        state = self.state
        if state.decided_step >= step:
            if state.last_decision is not None and state.last_decision.is_open and state.router.target is None:
                await self._switch(act, state.last_decision.action)
            return
        began = time.perf_counter()
        x = state.features(self._team.settings.token_budget, self._team.settings.controller.dwell)
        choice = decided(state.controller, x, self._team.setup)
        ms = (time.perf_counter() - began) * 1000
        wants = choice.action not in ("stay", state.router.topology)
        refused = self._refused(choice.action) if wants else None
        event = self._facts.after(
            act,
            TeamDecided,
            team=self._team.name,
            step=step,
            topology=state.router.topology,
            x=x,
            action=choice.action,
            epsilon=choice.epsilon,
            ms=ms,
            controller=self._team.settings.controller.kind,
            refused=refused,
        )
        await self._facts.publish(event)
        if wants and refused is None:
            await self._switch(act, choice.action)

    async def _switch(self, act: ActionTaken, action: str) -> None:
        if (target := known_topology(action)) is not None:
            await switch(TeamSwitchFacts(self._team.name, self._facts, lambda: self.router, act), target)


def report_of(act: ActionTaken, most: int) -> str:
    """The act in words for the other roles, at most `most` bytes; empty for a rest."""
    action, outcome = act.action, act.outcome
    if not action.valid:
        text = f"My reply was no valid action: {action.reason or ''}"
    elif action.kind == "DO_NOTHING":
        return ""
    elif action.kind == "REFLECT":
        text = f"I reflected: {action.text or ''}"
    else:
        found = "\n".join(filter(None, (outcome.error, cut(outcome.output.text, REPORT_OUTPUT).text)))
        text = f"{cut(render(action), REPORT_OUTPUT).text}\n{outcome.status}: {found}"
    return text.encode(errors="replace")[:most].decode(errors="ignore")
