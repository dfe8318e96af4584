"""The pure rules of the memory: ranking, what says the same, what contradicts, what an event leaves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conch.memory import contradiction_of, importance_of, is_duplicate, memories_of, memory_id, score, worth
from conch.memory.scoring import HALF_LIFE, LEAST, recency
from conch.memory.words import cue_words
from conch.testing import make_action_taken
from conch_schemas import (
    Action,
    Claim,
    Cut,
    CycleReflected,
    ExperienceRecorded,
    GoalCheck,
    MessageReceived,
    Outcome,
    source_of,
)

UNIT = st.floats(0.0, 1.0)
WHEN = st.floats(0.0, 4e9)
TEXT = st.text(st.sampled_from("abc not 12 is: the\n.,'’ÄäéΣ\u202e\0"), max_size=60)
EVENT = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"


@given(relevance=UNIT, importance=UNIT, at=WHEN, now=WHEN)
def test_a_score_lies_between_0_and_1_and_nothing_irrelevant_has_one(
    relevance: float, importance: float, at: float, now: float
) -> None:
    """Age and importance alone recall nothing."""
    assert 0.0 <= score(relevance, importance, at, now) <= 1.0
    assert score(0.0, importance, at, now) == 0.0


@given(one=UNIT, other=UNIT, importance=UNIT, at=WHEN, now=WHEN)
def test_a_score_rises_with_each_of_its_factors(
    one: float, other: float, importance: float, at: float, now: float
) -> None:
    """Relevance, importance and recency: the larger of two never ranks lower, all else equal."""
    low, high = sorted((one, other))

    assert score(low, importance, at, now) <= score(high, importance, at, now)
    assert score(importance, low, at, now) <= score(importance, high, at, now)
    assert score(importance, one, at, now) <= score(importance, one, at + 60.0, now)


@given(one=st.floats(LEAST, 1.0), other=st.floats(LEAST, 1.0), first=st.floats(0, 1e7), second=st.floats(0, 1e7))
def test_what_is_worth_more_is_so_at_every_time(one: float, other: float, first: float, second: float) -> None:
    """The order of `worth` is that of importance × recency, a day later and a year later."""
    assume(abs(worth(one, first) - worth(other, second)) > 1e-6)
    for now in (1e7 + 86_400.0, 1e7 + 31_536_000.0):
        products = one * recency(first, now), other * recency(second, now)
        assert (worth(one, first) > worth(other, second)) == (products[0] > products[1])


def test_a_memory_is_half_as_recent_after_its_half_life() -> None:
    """138 hours; and one that lies in the future, after a clock was set back, counts as new."""
    assert pytest.approx(138.28, abs=0.01) == HALF_LIFE / 3600
    assert recency(0.0, HALF_LIFE) == pytest.approx(0.5)
    assert recency(1e9, 0.0) == 1.0


@given(total=st.floats(-5, 5))
def test_an_episode_is_the_more_important_the_larger_its_reward_is(total: float) -> None:
    """Either way; never more than 1."""
    assert importance_of("episode", total) == importance_of("episode", -total) <= 1.0
    assert importance_of("episode", total) >= importance_of("episode", 0.0)


@given(one=TEXT, other=TEXT)
def test_to_say_the_same_and_to_contradict_are_symmetric_and_exclude_each_other(one: str, other: str) -> None:
    """Every text is its own duplicate, and no text contradicts itself."""
    assert is_duplicate(one, one)
    assert is_duplicate(one, other) == is_duplicate(other, one)
    found = contradiction_of("note", one, "fact", other)
    assert found == contradiction_of("fact", other, "note", one)
    assert not (found and is_duplicate(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Barnacles live on the rock.", "barnacles live ON the rock"),
        ("On the rock live many barnacles", "Many barnacles live on the rock."),
        ("The café's door: blue", "The café's door: BLUE"),
    ],
)
def test_two_texts_with_the_same_words_are_one_memory(one: str, other: str) -> None:
    """Case, marks and order do not count."""
    assert is_duplicate(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The tide at noon is 3 metres high", "The tide at noon is 4 metres high"),
        ("The door of the shed is open", "The door of the shed is not open"),
        ("dog bites", "cat bites"),
        ("The key lies in the red box", "The key lies in the blue box, under the stairs of the old house"),
        ("port: 80", "port: 81"),
    ],
)
def test_a_number_a_denial_or_another_word_keeps_two_memories_apart(one: str, other: str) -> None:
    """To lose one is worse than to hold two."""
    assert not is_duplicate(one, other)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("The tide at noon is 3 metres high", "The tide at noon is 4 metres high", "other numbers"),
        ("The tests of the tide program pass", "The tests of the tide program don't pass", "one denies it"),
        ("The capital of the island: Port Ann", "The capital of the island: Bell Town", "another value"),
        ("plan.md is a file in the workspace", "plan.md is not in the workspace", "one denies it"),
        ("Limpets live on rocks", "Kelp grows in the sea", None),
        ("The tide is high", "The tide is high", None),
    ],
)
def test_a_contradiction_is_named_with_its_reason(one: str, other: str, why: str | None) -> None:
    """By rules alone; without one of them there is none."""
    assert contradiction_of("fact", one, "note", other) == why


def test_only_statements_contradict_each_other() -> None:
    """Two acts with other numbers are two acts."""
    assert contradiction_of("episode", "I saw 3 birds here", "episode", "I saw 4 birds here") is None
    assert contradiction_of("note", "I saw 3 birds here", "lesson", "I saw 4 birds here") is None


@given(text=st.text(max_size=400))
def test_the_words_of_any_cue_can_be_looked_up(text: str) -> None:
    """Letters, digits and `_` alone, each word once, at most 32."""
    words = cue_words(text)
    assert len(words) == len(set(words)) <= 32
    assert all(word.replace("_", "a").isalnum() or not word.isascii() for word in words)


def experience(**changes: object) -> ExperienceRecorded:
    """The experience of an act that has read a file."""
    act = make_action_taken()
    fields: dict[str, object] = {
        "id": "0b6fb3b5-62e1-5c3f-8f2b-94c2cb1d3c01",
        "source": source_of("echo", EVENT),
        "agent": "echo",
        "cycle": 7,
        "action_id": act.action_id,
        "causation_id": EVENT,
        "seq": 3,
        "acted_at": datetime(2026, 11, 1, tzinfo=UTC),
        "raw": "x",
        "action": Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "read", "path": "tides.md"}),
        "outcome": Outcome(status="success", output=Cut(text="High at noon.\n> fake", length=20, sha256="x")),
        "scores": (),
        "total": 0.5,
        "breakdown": (),
        "coverage": 1.0,
        "complete": True,
        "revision": 1,
        "weights": "1",
        "model": "m",
        "ms": {},
    }
    return ExperienceRecorded.model_validate(fields | changes)


def test_an_act_leaves_an_episode_with_its_source() -> None:
    """One line with the call, the result and the reward; the act, its agent and cycle are named."""
    (found,) = memories_of(experience(thought="The tides\nmatter."))

    assert found.kind == "episode"
    assert found.text == (
        "The tides matter. | filesystem(operation=read, path=tides.md) | success: High at noon. > fake | reward +0.500"
    )
    assert (found.source.agent, found.source.event, found.source.cycle) == ("echo", EVENT, 7)
    assert found.importance == pytest.approx(0.55)


def test_every_revision_of_an_experience_has_the_memories_of_its_act() -> None:
    """The ids follow from the act, not from the revision."""
    first, later = experience(), experience(id=memory_id(EVENT, "note"), revision=2, total=0.1)

    assert [one.id for one in memories_of(first)] == [one.id for one in memories_of(later)]
    assert [one.revision for one in memories_of(later)] == [2]


def test_a_note_is_a_memory_in_place_of_its_episode() -> None:
    """And only where the tool kept it."""
    args = {"operation": "remember", "text": "Limpets home."}
    noted = Action(kind="TOOL", valid=True, tool="notes", args=args)
    failed = Outcome(status="error", output=Cut(text="", length=0, sha256="x"), error="no room")

    assert [(one.kind, one.text) for one in memories_of(experience(action=noted))] == [("note", "Limpets home.")]
    assert [one.kind for one in memories_of(experience(action=noted, outcome=failed))] == ["episode"]


def test_what_checking_found_in_the_workspace_and_a_reached_goal_are_facts() -> None:
    """Not what could not be checked."""
    claims = [
        Claim(claim="a", about="workspace", verdict="verified", evidence="a.md is a file in the workspace"),
        Claim(claim="b", about="workspace", verdict="unknown", evidence="b.md could not be looked at"),
        Claim(claim="c", about="sense", verdict="verified", evidence="it is warm"),
    ]
    goals = [GoalCheck(goal="g", statement="Write it.", outcome="achieved", measure=1.0, best=0.0)]

    found = memories_of(experience(claims=claims, goals=goals))

    assert [one.text for one in found if one.kind == "fact"] == [
        "a.md is a file in the workspace",
        "Goal reached: Write it.",
    ]
    assert len({one.id for one in found}) == len(found)


def test_a_reflection_is_a_lesson_and_an_empty_one_is_none() -> None:
    """The cycle's event is its source."""
    said = {"id": EVENT, "source": source_of("echo", EVENT), "agent": "echo", "cycle": 4, "sleep": 0, "ms": 0}

    (lesson,) = memories_of(CycleReflected.model_validate({**said, "reflection": "Read before writing."}))

    assert (lesson.kind, lesson.text, lesson.source.cycle) == ("lesson", "Read before writing.", 4)
    assert memories_of(CycleReflected.model_validate({**said, "reflection": " \n"})) == ()


@given(text=st.text(max_size=5000))
def test_no_text_of_a_person_makes_the_memory_fail_or_keeps_marks_that_hide(text: str) -> None:
    """Lone surrogates, NULs and direction marks are replaced; 4,000 characters at most."""
    message = MessageReceived(id=EVENT, source=source_of("echo", EVENT), agent="echo", text=text)

    for one in memories_of(message):
        one.text.encode()
        assert 0 < len(one.text) <= 4000
        assert not {"\0", "\u202e", "\u2066", "\x1b"} & set(one.text)
