"""Conversations: the history of a session, what people do about answers, and answers that come once."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import MemoryBus
from conch.consumer import follow
from conch.cycle.hosting.draft import answer_in
from conch.cycle.prompts.build import PromptLimits, deciding
from conch.cycle.state.sessions import MOST_SESSIONS, MOST_TURNS, Sessions, with_turn
from conch.minds import Situation
from conch.witness import ChainState, is_event, seal
from conch.witness.canonical import canonical
from conch_schemas import ActionTaken, AnsweredMessage, AnswerRated, MessageReceived, MessageSent, source_of, wire_form

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.cycle.conftest import Life, Running, Start


def answers(situation: Situation) -> str:
    """A mind that repeats what it was told."""
    if situation.message is None:
        return "DO_NOTHING: nobody waits"
    return f'TOOL: reply(text="to {situation.message}")'


async def answered(life: Life, running: Running, until: Until, text: str, session: str | None) -> MessageSent:
    """The answer to a message, once the agent's memory has it."""
    told = await running.ask("say", {"text": text, "session": session})
    found = [one for one in life.facts(MessageSent) if one.answers == told["id"]]
    while not found or told["id"] not in running.agent.memory.answered:
        await until(lambda: life.facts(MessageSent))
        await running.idle()
        found = [one for one in life.facts(MessageSent) if one.answers == told["id"]]
    sent: MessageSent = found[0]
    return sent


async def test_a_session_has_its_own_history_in_the_prompt(life: Life, start: Start, until: Until) -> None:
    """What was said before in the session stands before the message, quoted; another session's words do not."""
    life.mind.decides = answers
    running = await start()
    await answered(life, running, until, "the tide is high\nObey me", "a")
    await answered(life, running, until, "something else", "b")
    life.mind.asked.clear()
    sent = await answered(life, running, until, "and now?", "a")

    situation = next(one.situation for one in life.mind.asked if one.situation.message == "and now?")
    text = deciding("system", situation, PromptLimits(10)).messages[0].content
    assert sent.session == "a"
    assert "- the person said:\n> the tide is high\n> Obey me\n- you answered:\n> to the tide is high" in text
    assert "something else" not in text
    assert text.index("the tide is high") < text.index("A person says")


async def test_an_answer_says_whose_words_it_answers_and_so_does_its_mark(
    life: Life, start: Start, until: Until
) -> None:
    """The act holds the person's words, which are the stimulus of its mark; an act that answers nobody holds none."""
    life.mind.decides = answers
    running = await start()
    sent = await answered(life, running, until, "how is the tide?", "a")
    await until(lambda: life.facts(ActionTaken)[-1].cycle > (sent.cycle or 0))

    act = next(one for one in life.facts(ActionTaken) if one.action_id == sent.action_id)
    _, mark = seal(ChainState(), act)
    assert (act.message.id, act.message.text, act.message.session) == (sent.answers, "how is the tide?", "a")
    assert mark is not None
    assert mark.stimulus == "how is the tide?"
    assert life.facts(ActionTaken)[-1].message is None


async def test_what_people_do_about_an_answer_is_a_signal_of_the_next_one(
    life: Life, start: Start, until: Until
) -> None:
    """A correction and a suggestion to stop come from ratings alone: words that say the same are no signal."""
    life.mind.decides = answers
    running = await start()
    await answered(life, running, until, "you are wrong, stop it, I correct you", "a")
    plain = await answered(life, running, until, "I am not satisfied", "a")
    act = next(one for one in life.facts(ActionTaken) if one.action_id == plain.action_id)
    for number, (rating, text) in enumerate((("corrected", "low"), ("corrected", "lower"), ("stop", "enough"))):
        await running.put(
            follow(
                act,
                AnswerRated,
                consumer="human",
                version=str(number),
                message=act.message.id,
                rating=rating,
                text=text,
                session="a",
            )
        )
    await until(lambda: running.agent.memory.sessions["a"][-1].stop)
    next_one = await answered(life, running, until, "and now?", "a")
    other = await answered(life, running, until, "and here?", "b")

    said = {one.action_id: one.message for one in life.facts(ActionTaken) if one.message is not None}
    assert (said[plain.action_id].signals, said[plain.action_id].stopping_suggestion) == ((), None)
    assert said[next_one.action_id].signals == ("corrected",)
    assert said[next_one.action_id].stopping_suggestion == "enough"
    assert said[other.action_id].signals == ()
    assert "- the person corrected that to:\n> lower" in "\n".join(
        message.content
        for one in life.mind.asked
        if one.situation.message == "and now?"
        for message in deciding("system", one.situation, PromptLimits(10)).messages
    )


@pytest.mark.parametrize("session", ["", " ", "a b", "-a", "a" * 129, "a\n", 7])
async def test_a_session_with_another_name_is_refused(life: Life, start: Start, session: Any) -> None:
    """One sentence, and no fact."""
    running = await start()

    reply = await running.ask("say", {"text": "hello", "session": session})

    assert "is no session" in reply["error"]
    assert life.facts(MessageReceived) == []


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("at", range(8))
async def test_a_process_that_dies_in_a_turn_answers_once(life: Life, at: int, stored: bool) -> None:
    """Wherever it dies, the next process answers the message, and it is answered once, in its session."""
    life.mind.decides = answers
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        await agent.people_inbox.tell("are you there?", "user", "k", "a")
        await agent.people_inbox.tell("are you there?", "user", "k", "a")
    await life.crash(2, at, stored=stored)
    last = await life.run(5)

    [sent] = life.facts(MessageSent)
    assert len(life.facts(MessageReceived)) == 1
    assert (sent.text, sent.session) == ("to are you there?", "a")
    assert [turn.text for turn in last.memory.sessions["a"]] == ["are you there?"]


@given(st.lists(st.tuples(st.integers(0, 2 * MOST_SESSIONS), st.text(max_size=3000)), max_size=60))
def test_sessions_are_bounded_and_the_last_ones_stay(said: list[tuple[int, str]]) -> None:
    """However many sessions and turns: so many are kept, each text is cut, and the last turn is there."""
    sessions: Sessions = {}
    for number, (session, text) in enumerate(said):
        sessions = with_turn(sessions, str(session), str(number), text, text)
        assert list(sessions)[-1] == str(session)
        assert sessions[str(session)][-1].message == str(number)

    assert len(sessions) <= MOST_SESSIONS
    assert all(len(turns) <= MOST_TURNS for turns in sessions.values())
    assert len(json.dumps([turn.model_dump() for turns in sessions.values() for turn in turns])) < 256 * 1024


@given(st.text(max_size=60))
def test_an_answer_that_grows_is_shown_as_it_grows(text: str) -> None:
    """Each beginning of a reply, in the grammar or as JSON, gives a beginning of the answer; the whole gives all."""
    escaped = json.dumps(text)
    for raw in (f"TOOL: reply(text={escaped})", f'{{"tool":"reply","args":{{"text":{escaped}}}}}'):
        drafts = [answer_in(raw[:end]) for end in range(len(raw) + 1)]
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(drafts))
        assert drafts[-1] == text
    assert answer_in(f"TOOL: notes(text={escaped})") == ""


def test_marks_of_before_hold_for_facts_that_have_a_session_now(act: MakeAct) -> None:
    """A message and an act that were sealed without the later field are what their marks say; with another value in
    that field they are not."""
    source = source_of("echo", "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11")
    message = MessageReceived(id="m", source=source, agent="echo", text="hello")
    said = AnsweredMessage(id="m", text="hello")
    for fact, field, other in ((message, "session", "s"), (act(), "message", said)):
        wire = json.loads(wire_form(fact))
        for later in ("proposed", "unavailable"):
            wire["data"].get("outcome", {}).pop(later, None)
        for later in ("team", "progress", "context_sha256"):  # these came after `message`
            wire["data"].pop(later, None)
        sealed = json.dumps(wire | {"data": {name: one for name, one in wire["data"].items() if name != field}})
        content = hashlib.sha256(canonical(sealed.encode())).hexdigest()
        assert is_event(wire_form(fact), content)
        assert not is_event(wire_form(fact.model_copy(update={field: other})), content)
