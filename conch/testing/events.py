"""Factories of valid events: every field that is not given has a plain value, and ids are derived from the content."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from conch.consumer import follow
from conch_schemas import (
    Action,
    ActionTaken,
    Cut,
    ExperienceRecorded,
    Line,
    Outcome,
    RewardAssigned,
    Score,
    ScoredPart,
    action_id,
    cycle_event_id,
    source_of,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_action_taken(cycle: int = 1, agent: str = "echo", **fields: Any) -> ActionTaken:
    """The `action.taken` of a cycle: a DO_NOTHING without an outcome; `fields` replace its parts.

    The same agent and cycle give the same ids. Raises ValidationError for fields that cannot be.

    ```python
    from conch.testing import make_action_taken

    act = make_action_taken(cycle=3, raw="hello", raw_length=5)
    assert (act.agent, act.cycle, act.raw) == ("echo", 3, "hello")
    ```
    """
    agentuid = uuid.uuid5(uuid.NAMESPACE_URL, agent)
    identity = action_id(agentuid, cycle)
    plain: dict[str, object] = {
        "id": cycle_event_id(identity, ActionTaken),
        "source": source_of(agent, agentuid),
        "agent": agent,
        "cycle": cycle,
        "action_id": identity,
        "subject": identity,
        "action": Action(kind="DO_NOTHING", valid=True, text="resting"),
        "raw": "DO_NOTHING: resting",
        "raw_length": 19,
        "raw_sha256": "0" * 64,
        "outcome": Outcome(status="none", output=Cut(text="", length=0, sha256="0" * 64)),
        "needs": {"curiosity": 0.5},
        "model": "test",
        "ms": {"think": 1.0},
    }
    return ActionTaken(**{**plain, **fields})


def make_reward_assigned(
    action: ActionTaken, scores: Mapping[str, float | None], *, scorer: str = "test", version: str = "1"
) -> RewardAssigned:
    """The `reward.assigned` with which `scorer` scores an act: component -> value, None for not applicable.

    The range of each is wide enough for its value: 0..1, or up to the value.

    ```python
    from conch.testing import make_action_taken, make_reward_assigned

    reward = make_reward_assigned(make_action_taken(), {"joy": 0.5, "order": None})
    assert [score.status for score in reward.scores] == ["scored", "not_applicable"]
    ```
    """
    made = tuple(
        Score(
            component=component,
            value=value,
            range=(min(0.0, value or 0.0), max(1.0, value or 0.0)),
            status="not_applicable" if value is None else "scored",
            scorer=scorer,
            version=version,
        )
        for component, value in scores.items()
    )
    return follow(action, RewardAssigned, consumer=scorer, version=version, scorer=scorer, scores=made)


def make_experience_recorded(action: ActionTaken, total: float = 0.0, **fields: Any) -> ExperienceRecorded:
    """The `experience.recorded` of an act, complete, of its first revision, scored with `total` by one part.

    `fields` replace its parts. Raises ValidationError for fields that cannot be.

    ```python
    from conch.testing import make_action_taken, make_experience_recorded

    experience = make_experience_recorded(make_action_taken(cycle=2), total=0.4)
    assert (experience.cycle, experience.total, experience.complete) == (2, 0.4, True)
    ```
    """
    part = ScoredPart(
        component="test", value=total, weight=1.0, status="scored", explanation="", scorer="test", version="1"
    )
    plain: dict[str, object] = {
        "step": action.step,
        "seq": max(1, action.cycle or 0),
        "acted_at": NOON,
        "raw": action.raw,
        "action": action.action,
        "outcome": action.outcome,
        "scores": (part,),
        "total": total,
        "breakdown": (Line(step="part:test", amount=total),),
        "coverage": 1.0,
        "complete": True,
        "revision": 1,
        "weights": "test",
        "needs_before": action.needs,
        "model": action.model,
        "ms": action.ms,
    }
    return follow(action, ExperienceRecorded, consumer="store", version="1", **{**plain, **fields})
