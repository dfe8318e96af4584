"""Conversations on the dashboard: turns as events of the AG-UI protocol, ratings, and the page."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ag_ui.core import Event as AgUiEvent
from ag_ui.core import RunAgentInput, UserMessage
from playwright.async_api import Page, expect
from pydantic import TypeAdapter

from conch.cycle.approvals.answer import answer_to
from conch.cycle.state.memory import AgentMemory
from conch.text import cut
from conch_schemas import (
    ActApproved,
    ActDenied,
    Action,
    ActionTaken,
    AnsweredMessage,
    AnswerRated,
    MessageReceived,
    MessageSent,
    Outcome,
    RewardAssigned,
    control_subject,
    decode,
    source_of,
    subject_filter,
)
from conch_services.dashboard.api.chat import MOST_TURNS
from tests.approving import asking as asking_act
from tests.dashboard.conftest import CYCLES, Complaints, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE

EVENTS: TypeAdapter[Any] = TypeAdapter(AgUiEvent)


async def test_a_range_shows_what_was_answered_in_it(dashboard: Dashboard) -> None:
    """Turns of cycles outside of it stand in no conversation, and one without any is not listed."""
    source = source_of("echo", dashboard.life.uid)
    for session, cycle in (("early", 5), ("late", 50), ("late", 58)):
        message = f"m{cycle}"
        heard = MessageReceived(id=message, source=source, agent="echo", text=f"asked {cycle}", session=session)
        sent = MessageSent(
            id=f"s{cycle}", source=source, agent="echo", cycle=cycle, text=f"said {cycle}", answers=message
        )
        await dashboard.live([heard, sent], record=False)
    await dashboard.hub_at(dashboard.shared_events.seq)

    whole = (await dashboard.client.get("/chat?session=late")).text
    part = (await dashboard.client.get("/chat?session=late&range=55-60")).text
    none = (await dashboard.client.get("/chat?range=20-30")).text

    assert ("said 50" in whole, "said 58" in whole, "asked 5<" in whole) == (True, True, True)
    assert ("said 50" in part, "said 58" in part, "asked 5<" in part) == (False, True, False)
    assert "Nothing was answered in cycles 20 to 30" in none


async def test_a_message_of_no_conversation_is_shown(tab: Page, dashboard: Dashboard) -> None:
    """As `conch tell` sends it, once it comes; then its answer, with the way to its cycle."""
    source = source_of("echo", dashboard.life.uid)
    await tab.goto("./chat")
    heard = MessageReceived(id="m1", source=source, agent="echo", text=f"Look at the tide. {HOSTILE}")
    await dashboard.live([heard], record=False)

    alone = tab.locator("#sessions a", has_text="Told one by one: Look at the tide.")
    await alone.click()

    await expect(tab.locator("#chat .me")).to_contain_text("<script>alert(1)</script>")
    await expect(tab.locator("#chat .it")).to_have_text("No answer yet.")
    await expect(tab.locator("#sessions a")).to_have_attribute("aria-current", "true")
    sent = MessageSent(id="s1", source=source, agent="echo", cycle=58, text="It is low.", answers="m1")
    await dashboard.live([sent], record=False)
    await expect(tab.locator("#chat .said")).to_have_text("It is low.")
    await expect(tab.locator("#verdict")).to_contain_text("1 answer")
    await expect(tab.locator("#chat .it a")).to_have_text("cycle 58")
    await expect(tab.locator("#chat .it").get_by_role("button", name="Right")).to_be_visible()


class TalkingAgent:
    """Answers each message as a run does, in a cycle of its own; the same message again is the same."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.dashboard, self.text = dashboard, "The tide is low."
        self.told: dict[str, dict[str, Any]] = {}
        self.drafts: list[str] = []
        """What its mind has said, one for each look; then the answer comes."""
        self.silent = False
        self.decides: ActApproved | ActDenied | None = None
        """The decision on the act that waits, published at the next look."""

    async def respond(self, subject: str, data: bytes) -> bytes:
        verb, body = subject.rsplit(".", 1)[-1], json.loads(data)
        if verb == "say":
            return json.dumps(await self._said(body)).encode()
        if verb != "draft":
            return json.dumps({"ok": True, "state": "running"}).encode()
        message = list(self.told)[-1]
        if self.silent:
            return json.dumps({"error": "I go"}).encode()
        text = self.drafts.pop(0) if self.drafts else ""
        if self.decides is not None:
            await self.dashboard.live([self.decides], record=False)
            self.decides = None
        if not self.drafts:
            await self._answers(self.told[message])
        found = {"state": "running", "message": message, "phase": "decide", "seconds": 1.0, "text": text}
        return json.dumps({"ok": True} | found).encode()

    async def _said(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["id"] in self.told:
            return {"ok": True, "id": body["id"], "again": True}
        self.told[body["id"]] = body
        life = self.dashboard.life
        said = MessageReceived(
            id=body["id"], source=source_of(life.agent, life.uid), agent=life.agent, text=body["text"],
            session=body["session"],
        )  # fmt: skip
        await self.dashboard.live([said], record=False)
        if not self.drafts and not self.silent:
            await self._answers(body)
        return {"ok": True, "id": body["id"]}

    async def _answers(self, body: dict[str, Any]) -> None:
        life, cycle = self.dashboard.life, self.dashboard.life.next
        facts = life.cycle(
            action=Action(kind="TOOL", valid=True, tool="reply", args={"text": self.text}),
            outcome=Outcome(status="success", output=cut(self.text), answered=body["id"]),
            message=AnsweredMessage(id=body["id"], text=body["text"], session=body["session"]),
        )
        sent = MessageSent(
            id=f"sent-{cycle}", text=self.text, answers=body["id"], session=body["session"],
            **{name: getattr(facts[0], name) for name in ("source", "agent", "cycle", "action_id")},
        )  # fmt: skip
        place = next(number for number, fact in enumerate(facts) if isinstance(fact, ActionTaken))
        await self.dashboard.live([*facts[: place + 1], sent, *facts[place + 1 :]])


@asynccontextmanager
async def talking(dashboard: Dashboard) -> AsyncIterator[TalkingAgent]:
    """While an agent `echo` of a run answers."""
    home, agent = dashboard.seeded.home, TalkingAgent(dashboard)
    with home.owned():
        home.run_file.write_text(json.dumps({"pid": os.getpid(), "agents": ["echo"]}))
        async with dashboard.bus.serve(control_subject("echo", "*"), agent.respond):
            yield agent


def asking(text: Any, id: str = "m1", thread: str = "t1") -> dict[str, Any]:
    """The input of a run, as a front end of the protocol sends it."""
    said = RunAgentInput(
        thread_id=thread, run_id="r1", state={}, tools=[], context=[], forwarded_props={},
        messages=[UserMessage(id="m0", content="before"), UserMessage(id=id, content=text)],
    )  # fmt: skip
    found: dict[str, Any] = said.model_dump(by_alias=True, mode="json", exclude_none=True)
    return found


async def events(dashboard: Dashboard, body: Any) -> list[dict[str, Any]]:
    """The events of a run to its end; each is one of the protocol's."""
    async with dashboard.client.stream("POST", "/api/v1/agents/echo/chat", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in answer.aiter_lines()]
    found = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    for event in found:
        EVENTS.validate_python(event)
    return found


async def test_a_turn_is_a_run_of_the_protocol(dashboard: Dashboard) -> None:
    """From RUN_STARTED over the answer as it grows to RUN_FINISHED; its reward and its mark come before the end."""
    async with talking(dashboard) as agent:
        agent.drafts = ["The", "The tide"]
        found = await events(dashboard, asking("How is the tide?"))

    kinds = [event["type"] for event in found if event["type"] != "CUSTOM"]
    custom = {event["name"]: event["value"] for event in found if event["type"] == "CUSTOM"}
    assert kinds == [
        *("RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT"),
        *("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"),
    ]
    assert "".join(event["delta"] for event in found if "delta" in event) == "The tide is low."
    assert custom["conch.answer"]["cycle"] == CYCLES + 1
    assert custom["conch.reward"]["cycle"] == CYCLES + 1
    assert len(custom["conch.mark"]["hash"]) == 64
    [said] = agent.told.values()
    assert (said["text"], said["session"]) == ("How is the tide?", "t1")


async def test_a_draft_that_came_to_nothing_is_ended_before_the_answer(dashboard: Dashboard) -> None:
    """An answer that begins otherwise than what was sent is a message of its own."""
    async with talking(dashboard) as agent:
        agent.drafts = ["I would", "I would rather"]
        found = await events(dashboard, asking("How is the tide?"))

    texts: dict[str, str] = {}
    for event in found:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
    assert list(texts.values()) == ["I would rather", "The tide is low."]


async def test_the_same_message_again_is_the_same_turn(dashboard: Dashboard) -> None:
    """A front end that sends it once more, for want of an answer, gets the answer that there is."""
    async with talking(dashboard) as agent:
        first = await events(dashboard, asking("How is the tide?"))
        again = await events(dashboard, asking("How is the tide?"))

    answers = [[event["value"]["id"] for event in one if event.get("name") == "conch.answer"] for one in (first, again)]
    assert answers[0] == answers[1]
    assert len(agent.told) == 1


async def test_a_run_that_ends_in_a_turn_is_an_error_of_the_protocol(dashboard: Dashboard) -> None:
    """The message stays with the agent, and the front end is told."""
    async with talking(dashboard) as agent:
        agent.silent = True
        dashboard.seeded.home.run_file.write_text(json.dumps({"pid": os.getpid(), "agents": ["echo"]}))
        task = asyncio.ensure_future(events(dashboard, asking("How is the tide?")))
        while not agent.told:
            await asyncio.sleep(0.01)
        dashboard.seeded.home.run_file.unlink()
        found = await task

    assert [event["type"] for event in found if event["type"] != "CUSTOM"] == ["RUN_STARTED", "RUN_ERROR"]
    assert "run has ended" in found[-1]["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (asking("hello", thread="no session"), 422),
        (asking(" "), 422),
        (asking([{"type": "image", "source": {"type": "url", "value": "https://x.test/a.png"}}]), 422),
        (asking("hello") | {"messages": []}, 422),
        (asking("hello") | {"messages": [{"id": "1", "role": "assistant", "content": "I"}]}, 422),
        ({}, 422),
    ],
)
async def test_what_is_no_message_is_refused(dashboard: Dashboard, body: Any, status: int) -> None:
    """With a problem, before any event; nothing is said."""
    async with talking(dashboard) as agent:
        answer = await dashboard.client.post("/api/v1/agents/echo/chat", json=body)

    assert answer.status_code == status, answer.text
    assert agent.told == {}


async def test_turns_that_are_open_are_bounded(dashboard: Dashboard) -> None:
    """One more is asked to come again, and nothing is said; a turn that is over makes room."""
    async with talking(dashboard) as agent:
        dashboard.world.turns = MOST_TURNS
        refused = await dashboard.client.post("/api/v1/agents/echo/chat", json=asking("hello"))
        dashboard.world.turns = MOST_TURNS - 1
        await events(dashboard, asking("hello"))

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert len(agent.told) == 1
    assert dashboard.world.turns == MOST_TURNS - 1


async def test_without_a_run_there_is_no_turn(dashboard: Dashboard) -> None:
    """A conflict that says what to do."""
    answer = await dashboard.client.post("/api/v1/agents/echo/chat", json=asking("hello"))

    assert answer.status_code == 409
    assert answer.json()["detail"] == "The agent echo does not run: conch run starts it."


async def test_a_person_rates_an_answer(dashboard: Dashboard) -> None:
    """Praise is a score of the act too; a correction is kept; what answered nobody is not rated."""
    path = "/api/v1/agents/echo/chat/rating"
    async with talking(dashboard):
        await events(dashboard, asking("How is the tide?"))
    cycle = CYCLES + 1
    bodies = (
        {"cycle": cycle, "rating": "satisfied", "text": "well said"},
        {"cycle": cycle, "rating": "satisfied", "text": "well said"},
        {"cycle": cycle, "rating": "corrected", "text": "It is high."},
        {"cycle": cycle, "rating": "corrected"},
        {"cycle": 7, "rating": "stop"},
        {"cycle": 4711, "rating": "stop"},
    )
    answers = [await dashboard.client.post(path, json=body) for body in bodies]

    kinds = [subject_filter(AnswerRated), subject_filter(RewardAssigned)]
    facts = [decode(found.data) async for found in dashboard.bus.read(kinds)]
    approvals = [one for one in facts if isinstance(one, RewardAssigned) and one.scorer == "human"]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 409, 409, 404]
    assert [(one.rating, one.text) for one in facts if isinstance(one, AnswerRated)] == [
        ("satisfied", "well said"), ("corrected", "It is high.")
    ]  # fmt: skip
    assert [(one.cycle, one.scores[0].value) for one in approvals] == [(cycle, 1.0)]


async def test_an_act_that_waits_is_an_event_of_the_turn(dashboard: Dashboard) -> None:
    """One that waits from before the message, too; its decision is the next event, then the answer comes."""
    thought, asked = asking_act("echo", dashboard.life.uid, CYCLES + 1, command=HOSTILE)
    await dashboard.live([thought, asked], record=False)
    async with talking(dashboard) as agent:
        agent.decides = answer_to(AgentMemory(asked=asked), "echo", str(asked.action_id), "deny", "no", asked.time)
        agent.drafts = ["The"]
        found = await events(dashboard, asking("Launch it?"))

    names = [event["name"] for event in found if event["type"] == "CUSTOM"]
    custom = {event["name"]: event["value"] for event in found if event["type"] == "CUSTOM"}
    short = str(asked.action_id)[:8]
    assert names.index("conch.approval") < names.index("conch.decided") < names.index("conch.answer")
    assert (custom["conch.approval"]["id"], custom["conch.approval"]["why"]) == (short, asked.why)
    assert "\x1b" not in custom["conch.approval"]["words"]
    assert custom["conch.decided"] | {"words": ""} == {
        "id": short, "words": "", "decision": "denied", "by": "user", "why": "no"
    }  # fmt: skip


async def test_the_act_is_decided_on_in_the_conversation(dashboard: Dashboard, tab: Page) -> None:
    """The question stands below what was said, with its buttons; a decision on another page is told in the sentence."""
    await tab.goto("./chat?session=t1")
    await expect(tab.locator("#approval")).to_be_hidden()
    thought, asked = asking_act("echo", dashboard.life.uid, CYCLES + 1, command=HOSTILE)
    await dashboard.live([thought, asked], record=False)
    await expect(tab.locator("#approval code")).to_contain_text("<script>alert(1)</script>")

    await tab.locator("#approval [name=reason]").fill("not now")
    await tab.locator("#approval").get_by_role("button", name="Deny").click()

    await expect(tab.locator("#said")).to_have_text("The act is denied.")
    await expect(tab.locator("#approval")).to_be_hidden()
    [fact] = [decode(one.data) async for one in dashboard.bus.read([subject_filter(ActDenied)])]
    assert (fact.action_id, fact.why) == (asked.action_id, "not now")


async def test_the_page_shows_conversations_with_what_they_earned(dashboard: Dashboard) -> None:
    """Sessions, the turns of one, each answer with reward and mark; hostile text is text."""
    async with talking(dashboard) as agent:
        await events(dashboard, asking("How is the tide?"))
        agent.text = HOSTILE
        await events(dashboard, asking(HOSTILE, "m2"))
        await events(dashboard, asking("Elsewhere", "m3", "t2"))
    page = parsed((await dashboard.client.get("/chat?session=t1")).text)
    other = parsed((await dashboard.client.get("/chat?session=../../x")).text)

    talk = page.one("ol", id="chat")
    assert "The tide is low." in talk.text
    assert "reward +" in talk.text
    assert "mark " in talk.text
    assert "Elsewhere" not in talk.text
    assert "Elsewhere" in page.one("ul", **{"class": "sessions"}).text
    assert other.one("ol", id="chat").text.strip() == ""


async def test_a_person_talks_and_rates_on_the_page(dashboard: Dashboard, tab: Page) -> None:
    """What is sent is answered in place, with reward and mark; right and a correction are said with a press."""
    async with talking(dashboard) as agent:
        agent.drafts = ["The", "The tide"]
        await tab.goto("./chat?session=t1")
        await tab.get_by_label("Your words").fill("How is the tide?")
        await tab.get_by_role("button", name="Send").click()
        item = tab.locator("#chat .it")
        await expect(item.locator(".said")).to_have_text("The tide is low.")
        await expect(item.locator(".reward")).to_contain_text("reward +")
        await expect(item.locator(".mark")).to_contain_text("mark ")
        await item.get_by_role("button", name="Right").click()
        await expect(item.locator(".rating")).to_have_text("You were satisfied")
        await item.get_by_role("button", name="Correct…").click()
        await tab.get_by_label("The answer that would have been right").fill("It is high.")
        await tab.locator("#rate-box").get_by_role("button", name="Rate").click()
        await expect(item.locator(".rating")).to_have_count(2)
        await tab.reload()
        await expect(tab.locator("#chat .rating").last).to_contain_text("It is high.")


async def test_a_page_without_a_run_says_why_nothing_is_sent(tab: Page, complaints: Complaints) -> None:
    """In a sentence below the words, which stay."""
    complaints.pardon()
    await tab.goto("./chat")
    await tab.get_by_label("Your words").fill("hello")
    await tab.get_by_role("button", name="Send").click()

    await expect(tab.locator("#say .wrong")).to_contain_text("does not run")
    await expect(tab.get_by_label("Your words")).to_have_value("hello")
