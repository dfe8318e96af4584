"""Control requests to a running agent: JSON in, JSON out; a refusal is a reply too."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping

from pydantic import ValidationError

from conch.cycle.hosting.runner import AgentRunner
from conch.cycle.state.sent import SentPrompt
from conch.errors import ConchError, UsageError
from conch_schemas import AgentPaused, AgentResumed, Goal, JsonObject

SHOWN = 100
"""Agents that one status shows; those that wait for something come first."""
_AT_EASE = ("running", "starting", "ended")


class AgentCommands:
    """Answers the control requests of one agent. With `"all": true` a request is for all agents of its process."""

    def __init__(self, beside: Mapping[str, AgentRunner], one: AgentRunner) -> None:
        self._beside, self._one = beside, one
        self._known = {
            "pause": self._pause,
            "resume": self._resume,
            "stop": self._stop,
            "say": self._say,
            "goal": self._goal,
            "status": self._status,
            "prompt": self._prompt,
        }

    async def answer(self, subject: str, data: bytes) -> bytes:
        """The reply to a request on `conch.ctl.<agent>.<verb>`: `{"ok": true, …}`, or `{"error": one sentence}`."""
        try:
            reply: JsonObject = {"ok": True} | await self._reply(subject.rsplit(".", 1)[-1], data)
        except (ConchError, ValueError) as error:  # a value that cannot be encoded as an event raises ValueError
            reply = {"error": " ".join(str(error).split())[:500]}
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
        return await do(body)

    def _meant(self, body: JsonObject) -> list[AgentRunner]:
        return list(self._beside.values()) if body.get("all") is True else [self._one]

    async def _pause(self, body: JsonObject) -> JsonObject:
        for one in self._meant(body):
            if not one.control.paused:
                one.control.pause()
                await one.told_of(AgentPaused)
        return {}

    async def _resume(self, body: JsonObject) -> JsonObject:
        for one in self._meant(body):
            was_paused = one.control.paused
            one.control.resume()
            if was_paused:
                await one.told_of(AgentResumed)
        return {}

    async def _stop(self, body: JsonObject) -> JsonObject:
        for one in self._meant(body):
            one.control.stop()
        return {}

    async def _say(self, body: JsonObject) -> JsonObject:
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise UsageError("a message needs a text")
        key = str(body.get("id") or uuid.uuid4())
        return {"id": await self._one.agent.people_inbox.tell(text, str(body.get("sender", "user")), key)}

    async def _goal(self, body: JsonObject) -> JsonObject:
        if "drop" in body:
            goal = str(body["drop"])
            await self._one.agent.people_inbox.drop_goal(goal, str(body.get("why", "")))
            return {"goal": goal}
        if not isinstance(body.get("add"), dict):
            raise UsageError('a request about goals has "add", a goal, or "drop", a goal\'s id')
        new = _goal(body["add"])
        await self._one.agent.people_inbox.set_goal(new, by="user")
        return {"goal": new.id}

    async def _prompt(self, body: JsonObject) -> JsonObject:
        return {"prompt": SentPrompt.of(self._one.agent.next_prompt()).model_dump(mode="json")}

    async def _status(self, body: JsonObject) -> JsonObject:
        if body.get("all") is not True:
            return dict(self._one.status())
        rows = [one.row() for one in self._beside.values()]
        states = Counter(row["state"] for row in rows)
        return {"agents": sorted(rows, key=lambda row: row["state"] in _AT_EASE)[:SHOWN], "states": dict(states)}


def _goal(said: JsonObject) -> Goal:
    try:
        return Goal.model_validate({"id": str(uuid.uuid4())[:8]} | {k: v for k, v in said.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UsageError(f"this is no goal: {where}: {first['msg']}") from None
