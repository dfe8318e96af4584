"""The acting policy says what decisions are held to, as far as that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from conch.config import MindSettings
from conch.cycle.policy import ActingPolicy
from conch.minds import Mind
from conch.tools import BUILTIN_TOOLS, Toolbox

TOOLS = Toolbox(BUILTIN_TOOLS).registry


@dataclass
class Replies:
    """A mind that has replied last."""

    kind: str = "openai"
    model: str = "default"


def acting(mind: Any, tools: Any = TOOLS, **settings: Any) -> ActingPolicy:
    """The policy of an agent with these settings of its mind."""
    asked: Mind = mind
    return ActingPolicy(asked, MindSettings.model_validate(settings), "You are echo.", "", tools)


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        ({"kind": "local"}, True),
        ({"kind": "openai", "constrain": "schema"}, True),
        ({"kind": "openai"}, False),
        ({"kind": "openai", "constrain": "off"}, False),
        ({"kind": "openai", "constrain": "tools", "free_share": 1}, False),
        ({"kind": "local", "extra": {"grammar": "root ::= x"}}, False),
        ({"kind": "reflex"}, False),
    ],
)
def test_what_the_settings_hold_decisions_to_is_known_at_once(settings: dict[str, Any], known: bool) -> None:
    """A local model has its grammar, a form that is named is asked for; what an endpoint takes is not known yet."""
    policy = acting(Replies(settings["kind"]), **settings)

    assert (policy.content()["constraint"] is not None) is known


def test_the_digest_covers_kind_and_tools() -> None:
    """Other tools or another form are another constraint, and another policy; none is the policy that it was."""
    fewer = Toolbox(BUILTIN_TOOLS[:2]).registry
    policies = [
        acting(Replies(), kind="openai", constrain="schema"),
        acting(Replies(), kind="openai", constrain="tools"),
        acting(Replies(), fewer, kind="openai", constrain="tools"),
        acting(Replies(), kind="openai", constrain="off"),
    ]

    assert len({policy.digest for policy in policies}) == len(policies)
    assert len({policy.content()["constraint"] for policy in policies}) == len(policies)


def test_a_form_that_is_found_makes_another_policy_once() -> None:
    """The first decision that is held says what the endpoint takes; a free one in between takes nothing back."""
    policy = acting(Replies(), kind="openai")
    before = policy.digest

    assert [policy.follow(held) for held in ("free", "schema", "free", "schema")] == [False, True, False, False]
    assert policy.digest != before
    assert (
        policy.content()["constraint"] == acting(Replies(), kind="openai", constrain="schema").content()["constraint"]
    )


def test_a_fallback_is_held_to_what_it_takes() -> None:
    """The embedded mind that replies while the model is away is held to nothing."""
    mind = Replies("local")
    policy = acting(mind, kind="local", fallbacks=[{"kind": "reflex"}])
    mind.kind = "reflex"

    assert policy.follow()
    assert policy.content()["constraint"] is None
