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
from conch.text import BYTES_PER_TOKEN, estimated_tokens
from conch.tools import line_shown
from conch_schemas import Action

CALL_ARGUMENT = 1000
"""Most characters of an argument in the last act's call."""
SHORT_ARGUMENT = 200
"""Most characters of an argument in the call of an earlier act, and of every act in a small prompt."""
SMALL_PROMPT = 1500
"""A budget, in tokens, below which every call is written with short arguments."""
RESULT_SHARES = (0.4, 0.2, 0.1)
"""Share of the budget that the results of the last acts may take, the last act's first."""
OLDER_SHARE = 0.05
"""The same for the result of each earlier act."""
LEAST_AMOUNT = 0.005
"""A line of a reward of less, either way, is not told."""
LINES_TOLD = 6
"""Most lines of a reward that are told, the largest amounts first."""

_LEFT_OUT = re.compile(r"\n\[… (\d+ (?:characters|bytes) left out) …\]\n")
"""Where the middle of a result was left out."""
_LINE_ENDS = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Line ends that the grammar has no escape for."""


def acts_section(situation: Situation, budget: int) -> PromptSection:
    """The last acts, the oldest first: each as it was called, with its result or error and its reward."""
    last = len(situation.recent) - 1

    def entry(place: int, act: RecentOutcome) -> SectionEntry:
        age, is_small = last - place, budget < SMALL_PROMPT
        share = RESULT_SHARES[age] if age < len(RESULT_SHARES) else OLDER_SHARE
        result = act.result or act.output
        shown = result if is_small else shown_result(act, int(share * budget))
        return _act(act, SHORT_ARGUMENT if age or is_small else CALL_ARGUMENT, shown, "" if is_small else act.thought)

    entries = MadeEntries(situation.recent, entry)
    title = "Your last acts, the oldest first (your thought, the call, what came of it, the reward and why):"
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


def shown_result(act: RecentOutcome, tokens: int) -> str:
    """The act's result in about `tokens` tokens: whole, or its beginning and end, and between them how much is left out
    and, of a read, the call that shows it."""
    whole = act.result or act.output
    head, between, tail = _parted(whole)
    if estimated_tokens(whole) > tokens:
        half = max(1, tokens * BYTES_PER_TOKEN * len(whole) // (2 * max(1, len(whole.encode(errors="replace")))))
        left = len(whole) - len(head[:half]) - len((tail or head)[-half:])
        head, tail, between = head[:half], (tail or head)[-half:], f"{left} characters left out"
    elif not between:
        return whole
    rest = _rest_of(act, head)
    return f"{head}\n[… {between}{rest} …]\n{tail}"


def _parted(text: str) -> tuple[str, str, str]:
    """A text at the place where its middle was left out: the beginning, in words how much, the end. All of it is the
    beginning where nothing was."""
    cut_at = _LEFT_OUT.search(text)
    return (text, "", "") if cut_at is None else (text[: cut_at.start()], cut_at[1], text[cut_at.end() :])


def _rest_of(act: RecentOutcome, head: str) -> str:
    """The call that shows what follows the beginning of a read; empty for another act."""
    path = act.action.args.get("path")
    if act.action.skill != "filesystem.read" or not isinstance(path, str):
        return ""
    if "\n" not in head:
        return ""  # a line alone: a read from it on would show its beginning again
    numbered = line_shown(head.rpartition("\n")[0])
    begun, first = act.action.args.get("offset"), head.count("\n") + 1
    offset = numbered + 1 if numbered is not None else first if begun is None else begun
    more = act.action.model_copy(update={"args": {"operation": "read", "path": path, "offset": offset}})
    return f"; the rest: {call_text(more, SHORT_ARGUMENT)}"


def _act(act: RecentOutcome, most: int, result: str, thought: str) -> SectionEntry:
    reward = f"- reward {reward_text(act.reward)}" if act.reward is not None else "- reward not known yet"
    thought = f"- cycle {act.cycle}, your thought: {_flat(thought)}\n" if thought else ""
    if not act.action.valid:
        why = _flat(act.error or act.action.reason or "it follows no form")
        return SectionEntry(
            f"{thought}- cycle {act.cycle}: your reply was no valid action: {why}. It began:", act.raw, reward
        )
    error = f"- error: {_flat(act.error)}\n" if act.error else ""
    head = f"{thought}- cycle {act.cycle}: {call_text(act.action, most)}"
    return SectionEntry(f"{head}\n- result: {act.status}", result, error + reward)


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
