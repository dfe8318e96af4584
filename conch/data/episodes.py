"""Rows of an episode each, in the names of Minari's `EpisodeBuffer`: what was observed, done and earned. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from conch.data.acts import Workshop, outside, role_of
from conch.data.row import LeftOut, Row, make_row
from conch.experience import Example

LONGEST: Final = 200
"""Most acts of a row. An agent has no reset: where no task ends an episode, it is cut off here, as truncated."""


def episode_rows(examples: Iterable[Example], workshop: Workshop) -> Iterator[Row | LeftOut]:
    """The acts of each agent in their order, as episodes: of a task, else of up to LONGEST acts. An act is left out
    where the prompt of it is not known, and the last one of an agent, whose next state is not known yet."""
    open_runs: dict[str, list[Example]] = {}
    number = 0
    for example in examples:
        reason = outside(example, workshop.selection) or (None if example.messages else "prompt not recorded")
        if reason:
            yield LeftOut(reason, (example.act.action_id,))
            continue
        run = open_runs.setdefault(example.act.agent, [])
        if run and _ends(run, example):
            yield _episode(run, example, number, workshop)
            number += 1
            run.clear()
        run.append(example)
    for agent in sorted(open_runs):
        *run, last = open_runs[agent]
        if run:
            yield _episode(run, last, number, workshop)
            number += 1
        yield LeftOut("next state not known yet", (last.act.action_id,))


def _ends(run: list[Example], after: Example) -> bool:
    last = run[-1].act.data
    return last.terminal or last.episode != after.act.data.episode or len(run) >= LONGEST


def _episode(run: list[Example], after: Example, number: int, workshop: Workshop) -> Row:
    ends = run[-1].act.data.terminal
    flags: list[JsonValue] = [False] * (len(run) - 1)
    columns: dict[str, JsonValue] = {
        "id": number,
        "observations": [workshop.redact(one.messages[-1].content) for one in (*run, after)],
        "actions": [workshop.redact(one.act.data.raw) for one in run],
        "rewards": [one.verdict.total for one in run],
        "terminations": [*flags, ends],
        "truncations": [*flags, not ends],
    }
    began, roles = run[0].acted, {role_of(one) for one in run}
    return make_row(
        "minari",
        columns,
        agent=run[0].act.agent,
        action_ids=tuple(one.act.action_id for one in run),
        state_key="",
        prompt_hash="",
        policy=run[0].act.policy,
        weights=run[0].verdict.weights,
        revision=max(one.revision for one in run),
        reward=sum(one.verdict.total for one in run),
        role=roles.pop() if len(roles) == 1 else None,
        split="eval" if began >= workshop.survey.newest else "train",
    )
