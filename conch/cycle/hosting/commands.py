"""Control requests to a running agent: JSON in, JSON out; a refusal is a reply too."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from conch.bus import Bus
from conch.config import BudgetSettings
from conch.cycle.approvals.answer import Said
from conch.cycle.hosting.runner import AgentRunner
from conch.cycle.state.sent import SentPrompt
from conch.errors import BusError, ConchError, UsageError
from conch.processes import messages
from conch.tasks import concurrently
from conch_schemas import SESSION_PATTERN, AgentPaused, AgentResumed, Goal, JsonObject, control_subject

SHOWN = 100
"""Agents that one status shows; those that wait for something come first."""
_AT_EASE = ("running", "asleep", "starting", "ended")
PASSED_ON: Final = "passed_on"
"""Field of a request for all agents that another agent process has passed on."""
STATUS_SECONDS, OTHER_SECONDS = 0.7, 3.0
"""Timeouts of a request that is passed on: of `status`, which is asked for with a timeout of 1 second, and of the
others, with 5."""


class AgentCommands:
    """Answers the control requests of one agent. With `"all": true` a request is for all agents of the run: the agents
    of this process, and by one agent of each, those of its other processes."""

    def __init__(
        self, beside: Mapping[str, AgentRunner], one: AgentRunner, bus: Bus, others: Sequence[messages.OtherAgents]
    ) -> None:
        """`beside`: the agents of this process; `others`: those of the run's other processes."""
        self._beside, self._one, self._bus, self._others = beside, one, bus, others
        self._known = {
            "pause": self._pause,
            "resume": self._resume,
            "stop": self._stop,
            "say": self._say,
            "goal": self._goal,
            "approve": self._approve,
            "status": self._status,
            "prompt": self._prompt,
            "draft": self._draft,
            "switch": self._switch,
        }

    async def answer(self, subject: str, data: bytes) -> bytes:
        """The reply to a request on `conch.ctl.<agent>.<verb>`: `{"ok": true, …}`, or `{"error": one sentence}`,
        with `"usage": true` where another request would be answered."""
        try:
            reply: JsonObject = {"ok": True} | await self._reply(subject.rsplit(".", 1)[-1], data)
        except (ConchError, ValueError) as error:  # a value that cannot be encoded as an event raises ValueError
            reply = {"error": " ".join(str(error).split())[:500]}
            reply |= {"usage": True} if isinstance(error, UsageError) else {}
        return json.dumps(reply).encode()

    async def _reply(self, verb: str, data: bytes) -> JsonObject:
        do = self._known.get(verb)
        if do is None:
            raise UsageError(f"there is no request {verb[:60]!r}, there are {', '.join(self._known)}")
        try:
            body = json.loads(data or b"{}")
        except (ValueError, RecursionError):
            raise UsageError("the request is not JSON") from None
        if not isinstance(body, dict):
            raise UsageError("the request must be a JSON object")
        if body.get("all") is not True or body.get(PASSED_ON) is True or not self._others:
            return await do(body)
        answers = await self._pass_on(verb, body)
        return self._together(verb, await do(body), answers)

    async def _pass_on(self, verb: str, body: JsonObject) -> list[JsonObject | None]:
        """The answers of the other processes; None where one does not answer."""
        request = json.dumps(body | {PASSED_ON: True}).encode()
        timeout = STATUS_SECONDS if verb == "status" else OTHER_SECONDS

        async def answer(other: messages.OtherAgents) -> JsonObject | None:
            try:
                found = json.loads(
                    await self._bus.request(control_subject(other.first, verb), request, timeout=timeout)
                )
            except (BusError, ValueError):
                return None
            return found if isinstance(found, dict) and "error" not in found else None

        return await concurrently(answer, self._others)

    def _together(self, verb: str, own: JsonObject, answers: Sequence[JsonObject | None]) -> JsonObject:
        """This process's reply with the others'. Raises BusError where others do not answer: what was asked is done
        here."""
        silent = [other for other, answer in zip(self._others, answers, strict=True) if answer is None]
        if verb != "status":
            if silent:
                number = sum(other.number for other in silent)
                raise BusError(
                    f"{number} agents, {silent[0].first} among them, do not answer: conch status, then again"
                )
            return own
        there = [own, *(answer for answer in answers if answer is not None)]
        states = sum((Counter(one["states"]) for one in there), Counter[str]())
        rows = [row for one in there for row in one["agents"]]
        for other in silent:
            states["not answering"] += other.number
            rows.append({"agent": other.first, "state": "not answering", "why": "", "cycle": None})
        return _fleet(rows, states)

    def _meant(self, body: JsonObject) -> list[AgentRunner]:
        return list(self._beside.values()) if body.get("all") is True else [self._one]

    async def _pause(self, body: JsonObject) -> JsonObject:
        for one in self._meant(body):
            if not one.control.paused:
                one.control.pause()
                await one.told_of(AgentPaused)
        return {}

    async def _resume(self, body: JsonObject) -> JsonObject:
        limits = _limits(body["budget"]) if "budget" in body else None
        for one in self._meant(body):
            if limits is not None:
                one.limit(limits)
            was_paused = one.control.paused
            one.control.resume()
            if was_paused:
                await one.told_of(AgentResumed)
        return {}

    async def _switch(self, body: JsonObject) -> JsonObject:
        team = self._one.agent.team
        if team is None:
            raise UsageError(f"{self._one.name} is no team: a switch of the topology is asked of a team")
        if not isinstance(topology := body.get("topology"), str):
            raise UsageError("a switch needs a topology: star, chain or flat")
        return dict((await team.asked(topology))._asdict())

    async def _stop(self, body: JsonObject) -> JsonObject:
        for one in self._meant(body):
            one.control.stop()
        return {}

    async def _say(self, body: JsonObject) -> JsonObject:
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise UsageError("a message needs a text")
        key = str(body.get("id") or uuid.uuid4())
        session, state = session_of(body.get("session")), self._one.control.state
        id, again = await self._one.agent.people_inbox.tell(text, str(body.get("sender", "user")), key, session)
        return {"id": id, "state": state} | ({"again": True} if again else {})

    async def _goal(self, body: JsonObject) -> JsonObject:
        if "drop" in body:
            goal = str(body["drop"])
            await self._one.agent.people_inbox.drop_goal(goal, str(body.get("why", "")))
            return {"goal": goal}
        for said in ("accept", "veto"):
            if said in body:
                goal, why = str(body[said]), str(body.get("why", ""))
                return {"goal": goal, "again": await self._one.agent.people_inbox.decide_goal(goal, said, why)}
        if not isinstance(body.get("add"), dict):
            raise UsageError('a request about goals has "add", a goal, or "drop", "accept" or "veto", a goal\'s id')
        new = _goal(body["add"])
        if new.parent is not None and new.parent not in self._one.agent.memory.goals:
            raise UsageError(f"there is no active goal {new.parent[:60]!r} to be a part of: conch goal list shows them")
        await self._one.agent.people_inbox.set_goal(new, by="user")
        return {"goal": new.id}

    async def _approve(self, body: JsonObject) -> JsonObject:
        named = body.get("act")
        if not isinstance(named, str) or not isinstance(body.get("deny", False), bool):
            raise UsageError('a request to approve has "act", the act\'s id, and "deny", true or false')
        said: Said = "deny" if body.get("deny") else "approve"
        answer = await self._one.agent.people_inbox.decide(named, said, str(body.get("why", "")))
        return {"act": answer.action_id, "decision": "approved" if said == "approve" else "denied"}

    async def _prompt(self, body: JsonObject) -> JsonObject:
        return {"prompt": SentPrompt.of(self._one.agent.next_prompt()).model_dump(mode="json")}

    async def _draft(self, body: JsonObject) -> JsonObject:
        return {"state": self._one.control.state, "why": self._one.control.why, **self._one.agent.draft()}

    async def _status(self, body: JsonObject) -> JsonObject:
        if body.get("all") is not True:
            return dict(self._one.status())
        rows: list[JsonObject] = [dict(one.row()) for one in self._beside.values()]
        return _fleet(rows, Counter(row["state"] for row in rows))


def session_of(named: object) -> str | None:
    """The session that a request names, None for none. Raises UsageError for what cannot be the id of one."""
    if named is None or (isinstance(named, str) and re.fullmatch(SESSION_PATTERN, named)):
        return named
    raise UsageError(
        f"{str(named)[:60]!r} is no session: it is 1 to 128 letters, digits, '.', '_', ':' and '-', and begins with a "
        "letter or a digit"
    )


def _fleet(rows: list[JsonObject], states: Mapping[str, int]) -> JsonObject:
    """The status of several agents."""
    return {"agents": sorted(rows, key=lambda row: row["state"] in _AT_EASE)[:SHOWN], "states": dict(states)}


def _limits(said: object) -> BudgetSettings:
    try:
        return BudgetSettings.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UsageError(f"this is no budget: {where}: {first['msg']}") from None


def _goal(said: JsonObject) -> Goal:
    try:
        return Goal.model_validate({"id": str(uuid.uuid4())[:8]} | {k: v for k, v in said.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UsageError(f"this is no goal: {where}: {first['msg']}") from None
