"""Which parts an experience waits for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from conch.config import Settings
from conch.consumer.parts import expected_parts
from conch.consumer.plugins.discover import Discovery
from conch.errors import ConfigError
from conch.rules import RuleInfo

RULE = RuleInfo("brevity", "1", 0.1, -1.0, 1.0, origin="rules.py")


def settings(**rewards: Any) -> Settings:
    return Settings.model_validate({"rewards": rewards})


def test_rules_judges_and_outside_parts_are_expected_of_their_scorers() -> None:
    """Each asks for its weight; a judge scores as judge-NAME from 0 to 1, an outside part as itself or as it says."""
    rewards = {
        "judges": {"tone": {"rubric": "tone.txt", "weight": 0.2, "deadline": 60}},
        "parts": {"latency": {"range": (0, 5), "deadline": 9}, "thumbs": {"scorer": "human", "held_out": True}},
    }

    parts = {part.component: part for part in expected_parts(settings(**rewards), Discovery((RULE,)))}

    told = {
        name: (part.scorer, part.weight, part.range, part.deadline, part.role)
        for name, part in parts.items()
        if name in ("brevity", "tone", "latency", "thumbs")
    }
    assert told == {
        "brevity": ("brevity", 0.1, (-1, 1), 30, "paid"),
        "tone": ("judge-tone", 0.2, (0, 1), 60, "paid"),
        "latency": ("latency", 0.0, (0, 5), 9, "paid"),
        "thumbs": ("human", 0.0, (0, 1), 30, "held_out"),
    }
    assert sum(part.weight for part in parts.values()) == pytest.approx(1.0)


def test_the_constitution_of_the_settings_is_the_gates() -> None:
    """A gate that is off gates nothing."""
    off = Settings.model_validate({"constitution": {"gate": False}})

    roles = [
        next(part.role for part in expected_parts(one, Discovery()) if part.component == "ethical")
        for one in (Settings(), off)
    ]

    assert roles == ["gate", "paid"]


@pytest.mark.parametrize(
    ("rewards", "other"),
    [
        ({"judges": {"brevity": {"rubric": "r"}}}, "rewards.judges.brevity"),
        ({"parts": {"brevity": {}}}, "rewards.parts.brevity"),
    ],
)
def test_two_scorers_of_one_component_are_both_named(rewards: dict[str, Any], other: str) -> None:
    """Who clashes with whom stands in the sentence."""
    with pytest.raises(ConfigError, match=rf"rules.py and {other} both score brevity: give one of them another name"):
        expected_parts(settings(**rewards), Discovery((RULE,)))


@pytest.mark.parametrize("scorer", ["", "Reward", "../key", "a.b", "*", "a b"])
def test_a_scorer_that_can_be_no_name_is_refused(scorer: str) -> None:
    """It becomes the name of a user and of its key's file."""
    with pytest.raises(ValidationError, match="scorer"):
        settings(parts={"thumbs": {"scorer": scorer}})
