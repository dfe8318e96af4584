"""A prompt keeps to its budget of tokens: what matters most stays, and what is left out is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.config import MindSettings
from conch.cycle.prompts.budget import MadeEntries, PromptSection, SectionEntry, fitted, listed, prompt_budget
from conch.cycle.prompts.build import PromptLimits, deciding, reflecting, system_prompt, thinking
from conch.minds import ActReward, Lesson, RecentOutcome, Situation
from conch.text import estimated_tokens
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch.values import Values
from conch_schemas import Action, Claim, CommandCheck, FileCheck, Goal

TOOLS = Toolbox(BUILTIN_TOOLS).registry
NEEDS = {"sustainability": 0.7, "reliability": 0.7, "curiosity": 0.5, "excellence": 0.6}


def situation(text: str, count: int, message: str | None) -> Situation:
    """A situation with `count` of each thing, all of them as long as `text`."""
    action = Action(kind="TOOL", valid=True, tool="shell", args={"command": text})
    reward = ActReward(0.5)
    return Situation(
        agent="echo",
        cycle=99,
        needs=NEEDS,
        pressing={need: 1.5 - level for need, level in NEEDS.items()},
        need="curiosity",
        goals=tuple(Goal(id=f"g{n}", statement=text[:500] or "g", check=FileCheck(path="x")) for n in range(count)),
        raised_by=dict.fromkeys(NEEDS, ("new_information", "reflected")),
        lessons=tuple(Lesson(n, action, "success", text[:200], reward) for n in range(min(count, 8))),
        waiting=(text,) * count,
        message=message,
        thought=text,
        claims=(Claim(claim=text[:300], about="memory", verdict="unknown", evidence=text[:300]),) * count,
        memory=(text,) * count,
        recent=tuple(
            RecentOutcome(90 + n, action, "success", text[:2000], result=text[:8000], reward=reward)
            for n in range(count)
        ),
        files=tuple(f"{n}/{text[:80]}" for n in range(count)),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([thinking, deciding, reflecting]),
    st.text(max_size=60).map(lambda text: text * 200) | st.text(max_size=300),
    st.integers(0, 10),
    st.none() | st.text(min_size=1, max_size=3000),
    st.integers(300, 20_000),
)
def test_no_prompt_is_larger_than_its_budget(ask: Any, text: str, count: int, message: str | None, budget: int) -> None:
    """By the estimate, with the system prompt; the sections' tokens add up to no less than the whole."""
    system = system_prompt("echo", TOOLS, Values(), budget)

    prompt = ask(system, situation(text, count, message), PromptLimits(10, budget))

    told = "\n\n".join((system, *(message.content for message in prompt.messages)))
    assert estimated_tokens(told) <= prompt.tokens <= budget


def test_a_small_recorded_prompt_keeps_the_question_the_needs_a_message_and_the_last_act() -> None:
    """512 tokens, not read as text: tools by signature, needs without their causes, the rest left out."""
    system = system_prompt("echo", TOOLS, Values(), 512)

    limits = PromptLimits(10, 512, is_read=False)
    prompt = deciding(system, situation("the tide tables are in notes " * 50, 6, "How are you?"), limits)

    told = prompt.messages[0].content
    assert "filesystem(operation: read|write" in system
    assert "the file's whole text" not in system
    assert "> How are you?" in told
    assert all(f"- {need}: satisfied" in told for need in NEEDS)
    assert "raised by" not in told
    assert told.endswith("Decide. Answer with one action in the grammar, nothing else.")
    left = {part.name: part.left_out for part in prompt.parts}
    assert left["files"] == 6


def test_a_large_budget_shows_all_of_it() -> None:
    """Nothing is left out or shortened where there is room; needs come with what raises them, the most urgent first."""
    prompt = deciding("system", situation("words " * 1000, 3, "How are you?"), PromptLimits(10, 100_000))

    told = prompt.messages[0].content
    assert not any(part.left_out or part.shortened for part in prompt.parts)
    assert "left out" not in told.replace("characters left out", "")
    assert "- curiosity: satisfied 0.50, pressing 1.00; raised by new information, reflected" in told
    assert told.index("- curiosity") < told.index("- excellence") < told.index("- reliability")


def test_what_is_left_out_is_said_and_the_newest_acts_stay() -> None:
    """The last act in full before earlier ones; their number is told."""
    prompt = thinking("system", situation("line\n" * 400, 8, None), PromptLimits(10, 2000))

    told, acts = prompt.messages[0].content, next(part for part in prompt.parts if part.name == "acts")
    assert "- cycle 97:" in told
    assert "- cycle 90:" not in told
    assert f"({acts.left_out} earlier left out for want of room)" in told
    assert acts.left_out > 0


def test_goals_show_their_checks_and_what_was_measured() -> None:
    """A mind that knows how it is measured can work towards it."""
    goals = (
        Goal(id="a", statement="Write it down", check=FileCheck(path="out.md", contains=("tide", 'a "moon"'))),
        Goal(id="b", statement="Mend it", check=CommandCheck(command="make check")),
    )
    asked = Situation("echo", 1, {}, {}, "curiosity", goals=goals, measures={"a": (0.5, 0.25)})

    told = thinking("system", asked, PromptLimits(10)).messages[0].content

    assert (
        'Goals:\n- Write it down\n- its check: the file out.md contains "tide", "a \\"moon\\""\n'
        "- best so far 0.50 of 1, now 0.25\n"
        "- Mend it\n- its check: make check exits with status 0\n- not checked yet"
    ) in told


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        ({"kind": "openai"}, 8000),
        ({"kind": "openai", "prompt_tokens": 512, "context_window": 100_000}, 512),
        ({"kind": "openai", "context_window": 8192, "max_tokens": 1024}, 4915),
        ({"kind": "openai", "context_window": 200_000}, 120_000),
        ({"kind": "openai", "context_window": 200_000, "prompt_share": 0.3}, 60_000),
        ({"kind": "openai", "context_window": 8192}, 4096),
        ({"kind": "openai", "context_window": 2048, "max_tokens": 4096}, 1024),
        ({"kind": "openai", "prompt_tokens": 4000, "context_window": 4096, "max_tokens": 1024}, 3072),
        ({"kind": "local"}, 512),
        ({"kind": "local", "context_window": 8192}, 512),
        ({"kind": "local", "context_window": 512}, 256),
        ({"kind": "local", "context_window": 8192, "prompt_tokens": 4000}, 4000),
        ({"kind": "local", "context_window": 2048, "prompt_tokens": 4000, "max_tokens": 500}, 1548),
        ({"kind": "reflex"}, 512),
        ({"kind": "reflex", "prompt_tokens": 700, "context_window": 512}, 700),
    ],
)
def test_the_budget_leaves_room_for_the_reply(settings: dict[str, Any], budget: int) -> None:
    """As set, as far as the context window has room beside the reply; else the share of the window, but for a local
    model no more than 512; else 8,000, and less where no model reads the prompt."""
    assert prompt_budget(MindSettings(**settings)) == budget


@given(
    st.lists(st.text(max_size=40), max_size=30),
    st.lists(st.text(max_size=200), max_size=6),
    st.integers(0, 400),
    st.booleans(),
)
def test_entries_that_are_made_when_needed_fit_as_those_made_before(
    texts: list[str], others: list[str], budget: int, newest_first: bool
) -> None:
    """The fitted sections are the same, whatever the room and the order in which the entries are kept."""

    def entry(place: int, text: str) -> SectionEntry:
        return SectionEntry(f"- {place}", text)

    def sections(entries: Sequence[SectionEntry]) -> tuple[PromptSection, ...]:
        return (
            PromptSection("one", "One:", entries, priority=1, share=0.4, newest_first=newest_first),
            PromptSection("two", "Two:", listed(others), priority=0, share=0.5),
        )

    before = tuple(entry(place, text) for place, text in enumerate(texts))
    assert fitted(sections(MadeEntries(texts, entry)), budget) == fitted(sections(before), budget)


def test_entries_for_which_there_is_no_room_are_not_made() -> None:
    """Of a hundred entries in a small budget, the first that does not fit is the last one made."""
    made: list[int] = []

    def entry(place: int, text: str) -> SectionEntry:
        made.append(place)
        return SectionEntry(text)

    (section,) = fitted(
        (PromptSection("files", "Files:", MadeEntries(["a/long/name.md"] * 100, entry), priority=0, share=1.0),), 60
    )

    assert section.entries == 100
    assert 0 < 100 - section.left_out < len(made) < 20
