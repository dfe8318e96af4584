"""Teams in the configuration: what is refused, and what the default roles keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from conch.config import Settings, TeamSettings
from conch.config.load import load
from conch.home import Home


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"roles": {"planner": None}}, "a team has a planner, which a star goes through"),
        ({"roles": {"coder": None, "runner": None, "critic": None}}, "a team has two roles at least"),
        ({"topology": "ring"}, "'star', 'chain' or 'flat'"),
        ({"goal": {"id": "a", "statement": "b", "check": {"kind": "file", "path": "c"}}}, "measured by a test suite"),
        ({"roles": {"coder": {"mind": {"kind": "reflex"}}}}, "shared by all roles, set it as mind"),
        ({"roles": {"tester": {}}}, "Field required"),
        ({"roles": {"all": {"prompt": "x"}}}, "no role can be named all"),
        ({"roles": {"two words": {"prompt": "x"}}}, "should match pattern"),
    ],
)
def test_a_team_that_cannot_work_is_refused(given: dict[str, Any], why: str) -> None:
    """Each in one sentence."""
    with pytest.raises(ValidationError, match=why):
        TeamSettings.model_validate(given)


def test_a_default_role_that_is_named_keeps_its_prompt_and_its_place() -> None:
    """What is said of the coder changes the coder alone; a role of one's own comes last."""
    plain = TeamSettings()
    changed = TeamSettings.model_validate({"roles": {"coder": {"tools": ["shell"]}, "tester": {"prompt": "Test."}}})

    assert [*changed.roles] == [*plain.roles, "tester"] == ["planner", "coder", "runner", "critic", "tester"]
    assert changed.roles["coder"].prompt == plain.roles["coder"].prompt
    assert changed.roles["coder"].tools == ("shell",)


def test_a_default_role_that_is_null_in_the_file_is_left_out_in_every_process(tmp_path: Path) -> None:
    """Also in the settings that a child process is given."""
    file = tmp_path / "team.yaml"
    file.write_text("team:\n  crew:\n    roles: {runner: null, critic: null}\n")
    settings = load(file, Home(tmp_path), {})
    passed_on = Settings.model_validate_json(settings.model_dump_json())

    assert [*settings.team["crew"].roles] == [*passed_on.team["crew"].roles] == ["planner", "coder"]
    assert passed_on == settings
