"""The agent's acts, their rewards and the lessons from them as sections of a prompt. Pure.

A call is written as the parser accepts it, so that it can be repeated as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from conch.actions import render
from conch.cycle.prompts.budget import MadeEntries, PromptSection, SectionEntry
from conch.cycle.state.rewards import with_short_arguments
from conch.minds import ActReward, ConversationTurn, Lesson, RecentOutcome, Situation
from conch_schemas import Action

CALL_ARGUMENT = 1000
"""Most characters of an argument in the last act's call."""
SHORT_ARGUMENT = 200
"""Most characters of an argument in the call of an earlier act, and of every act in a small prompt."""
SMALL_PROMPT = 1500
"""A budget, in tokens, below which every call is written with short arguments."""
LEAST_AMOUNT = 0.005
"""A line of a reward of less, either way, is not told."""
LINES_TOLD = 6
"""Most lines of a reward that are told, the largest amounts first."""

_LINE_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Line ends that the grammar has no escape for."""


def acts_section(situation: Situation, budget: int) -> PromptSection:
    """The last acts, the oldest first: each as it was called, with its result or error and its reward."""
    last = len(situation.recent) - 1

    def entry(place: int, act: RecentOutcome) -> SectionEntry:
        return _act(act, CALL_ARGUMENT if place == last and budget >= SMALL_PROMPT else SHORT_ARGUMENT)

    entries = MadeEntries(situation.recent, entry)
    title = "Your last acts, the oldest first (the call, what came of it, the reward and why):"
    return PromptSection("acts", title, entries, priority=3, share=0.45, newest_first=True)


def lessons_section(situation: Situation) -> PromptSection:
    """The best and the worst acts; those that stand among the last acts are left out."""
    shown = {act.cycle for act in situation.recent}
    lessons = sorted(
        (one for one in situation.lessons if one.cycle not in shown), key=lambda one: -abs(one.reward.total)
    )
    title = "Your best and worst acts so far, by their reward (do more like the best, none like the worst):"
    entries = MadeEntries(lessons, lambda _, lesson: _lesson(lesson))
    return PromptSection("lessons", title, entries, priority=5, share=0.15)


def conversation_section(situation: Situation) -> PromptSection:
    """What was said before in the session of the message, the oldest first: a person's words and the agent's, quoted,
    and how people rated the answers. Of a section that is too long, the last words stay."""
    entries = [entry for turn in situation.conversation for entry in _turn(turn)]
    title = "The conversation so far, the oldest first (a person's words and your answers):"
    return PromptSection("conversation", title, tuple(entries), priority=2, share=0.25, newest_first=True)


def call_text(action: Action, most: int) -> str:
    """The action on one line. A valid one parses again: to the same action where its arguments have at most `most`
    characters and none of the rare line ends, which become blanks; longer arguments lose their middle."""
    return _LINE_ENDS.sub(" ", render(with_short_arguments(action, most))).replace("\n", " ")


def reward_text(reward: ActReward) -> str:
    """The total and the lines that matter, on one line."""
    told = sorted((line for line in reward.lines if abs(line.amount) >= LEAST_AMOUNT), key=lambda one: -abs(one.amount))
    lines = [f"{line.step.removeprefix('part:')} {line.amount:+.3f}{_because(line.why)}" for line in told[:LINES_TOLD]]
    so_far = "" if reward.complete else " so far, not every score has come"
    return f"{reward.total:+.3f}{so_far}" + (f" = {'; '.join(lines)}" if lines else "")


def _turn(turn: ConversationTurn) -> Iterator[SectionEntry]:
    yield SectionEntry("- the person said:", turn.said)
    yield SectionEntry("- you answered:", turn.answer)
    if turn.correction:
        yield SectionEntry("- the person corrected that to:", turn.correction)
    if told := [signal for signal in turn.signals if signal != "corrected"]:
        yield SectionEntry(f"- the person was {' and '.join(told)} with that")


def _act(act: RecentOutcome, most: int) -> SectionEntry:
    reward = f"- reward {reward_text(act.reward)}" if act.reward is not None else "- reward not known yet"
    if not act.action.valid:
        why = _flat(act.error or act.action.reason or "it follows no form")
        return SectionEntry(f"- cycle {act.cycle}: your reply was no valid action: {why}. It began:", act.raw, reward)
    error = f"- error: {_flat(act.error)}\n" if act.error else ""
    head = f"- cycle {act.cycle}: {call_text(act.action, most)}"
    return SectionEntry(f"{head}\n- result: {act.status}", act.result or act.output, error + reward)


def _lesson(lesson: Lesson) -> SectionEntry:
    if lesson.action.valid:
        did = call_text(lesson.action, SHORT_ARGUMENT)
        came = f"- result: {lesson.status}" + (f": {_flat(lesson.result)}" if lesson.result else "")
    else:
        did, came = "a reply that was no valid action", f"- reason: {_flat(lesson.result)}"
    return SectionEntry(f"- cycle {lesson.cycle}: {did}\n{came}\n- reward {reward_text(lesson.reward)}")


def _because(why: str) -> str:
    return f" ({_flat(why)})" if why else ""


def _flat(text: str) -> str:
    return " ".join(text.split())
