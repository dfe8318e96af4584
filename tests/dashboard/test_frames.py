"""What a page is told of a fact: small, safe, and nothing of it lost that pages show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from conch.text import cut
from conch_schemas import EVENTS, Action, ActionTaken, Event, MessageReceived, PolicySet, source_of
from conch_services.dashboard.stream.frames import SHOWN, brief, frame
from tests.dashboard.life import Life

if TYPE_CHECKING:
    from tests.conftest import MakeAct


UID = "0b6c2b0e-7f55-4a3e-9a54-35a5f7b1d0aa"


def said(event: Event, seq: int = 7) -> dict[str, Any]:
    """The data of its frame."""
    made = frame(event, seq)
    assert made is not None
    identity, data, blank, end = made.decode().split("\n")
    assert (identity, blank, end) == (f"id: {seq}", "", "")
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return found


def test_every_fact_of_a_cycle_has_a_frame_that_is_one_line() -> None:
    """Whatever stands in its texts: line ends and quotes are JSON's to escape."""
    for fact in Life().cycle(hostile=True):
        made = frame(fact, 1)
        assert type(fact) not in SHOWN or made is None or made.count(b"\n") == 3


@given(st.text())
def test_words_are_made_safe_and_short(text: str) -> None:
    """No control character, no mark of direction, 200 characters at most."""
    told = said(MessageReceived(id="m", source=source_of("echo", UID), agent="echo", text=text))["text"]

    assert len(told) <= 200
    assert not any(mark in told for mark in "\x00\x1b\u202e\u2066\n\r")


def test_a_frame_of_a_large_act_is_small(act: MakeAct) -> None:
    """A megabyte of arguments and output stays in the history, from where a page asks for it."""
    huge = "<script>" * 100_000
    event: ActionTaken = act(
        1, action=Action(kind="TOOL", valid=True, tool="shell", args={"command": huge}), raw=cut(huge).text
    )

    assert len(frame(event, 1) or b"") < 2000


def test_facts_that_no_page_shows_have_no_frame() -> None:
    """A policy's whole prompt is asked for where it is looked at."""
    policy = PolicySet(id="p", source=source_of("echo", UID), agent="echo", mind="reflex", model="m", system_prompt="s")

    assert frame(policy, 1) is None
    assert PolicySet not in SHOWN
    assert set(SHOWN) < set(EVENTS)


def test_a_page_whose_parts_are_drawn_for_it_hears_little() -> None:
    """The kind and the cycle of each fact, in few bytes; a message is whole, as a page puts it into a list."""
    facts = Life().cycle()
    short = [made for fact in facts if (made := brief(fact, 1))]
    whole = [made for fact in facts if (made := frame(fact, 1))]
    heard = MessageReceived(id="m", source=source_of("echo", UID), agent="echo", text="hello")

    assert len(short) == len(whole)
    assert sum(map(len, short)) < 0.25 * sum(map(len, whole))
    assert brief(heard, 1) == frame(heard, 1)
