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


def test_the_weights_of_the_training_section_are_the_base() -> None:
    """They are in force as they are given; added rules shrink them, and the table rewards.weights wins."""
    given = {"format_compliance": 0.1, "execution_success": 0.4, "needs_satisfaction": 0.2, "goal_progress": 0.2}
    training = {"reward_weights": given | {"exploration": 0.1}}
    table = {"format": 0.5, "execution": 0.5, "needs": 0.0, "goal": 0.0, "exploration": 0.0, "brevity": 0.0}

    bare, ruled, tabled = (
        {part.component: part.weight for part in expected_parts(chosen, Discovery(rules)) if part.weight}
        for chosen, rules in (
            (Settings.model_validate({"training": training}), ()),
            (Settings.model_validate({"training": training}), (RULE,)),
            (Settings.model_validate({"training": training, "rewards": {"weights": table}}), (RULE,)),
        )
    )

    assert bare == {"format": 0.1, "execution": 0.4, "needs": 0.2, "goal": 0.2, "exploration": 0.1}
    assert ruled == pytest.approx({name: 0.9 * weight for name, weight in bare.items()} | {"brevity": 0.1})
    assert tabled == {"format": 0.5, "execution": 0.5}


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
