"""What an operation of a tool may change: the declarations of the built-in tools, and how one is read from an act.

`read`: neither the workspace nor anything outside the agent. The agent's own notes and its answers to people do not
count as a change. `workspace`: files of the workspace, and nothing beyond it. `world`: something beyond the workspace,
such as a device, and not the workspace itself.

An operation for which nothing is declared may change both: goals are checked again after it, and the constitution
judges it like `world`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conch_schemas import Action, Effect

Effects = Effect | Mapping[str, Effect]
"""Of a tool: one effect for every call, or one for each of its operations."""

BUILTIN_EFFECTS: Final[Mapping[str, Effects]] = {
    "shell": "workspace",
    "filesystem": {
        "read": "read",
        "write": "workspace",
        "edit": "workspace",
        "list": "read",
        "exists": "read",
        "info": "read",
        "delete": "workspace",
        "mkdir": "workspace",
        "grep": "read",
        "glob": "read",
    },
    "git": {
        "status": "read",
        "log": "read",
        "diff": "read",
        "branch": "workspace",
        "add": "workspace",
        "commit": "workspace",
        "checkout": "workspace",
        "pull": "workspace",
        "push": "workspace",
    },
    "notes": "read",
    "reply": "read",
    "tell": "read",
    "goal": {"command": "workspace", "file": "read", "tests": "workspace"},
    "device": "world",
}
"""What the built-in tools declare, by their names. The sandbox has no network, so git and the shell stay in the
workspace. The table stands here, below the tools: the rules of the reward read it for acts that were recorded without
`declared_effect`, and rules do not import tools. A proposed goal's command runs once before the goal is set."""


_KINDS_OF: Final[Mapping[str, str]] = {"filesystem.edit": "filesystem.write"}
"""Skills that do in another way what an older one does: what a person has forbidden of that holds of them too."""


def forbidden_as(skill: str) -> tuple[str, ...]:
    """The skills, `tool.operation`, by which a person may have forbidden a call of this one: itself first."""
    older = _KINDS_OF.get(skill)
    return (skill,) if older is None else (skill, older)


def effect_in(effects: Effects, operation: object) -> Effect | None:
    """The effect that is declared for `operation`; None where there is none."""
    if isinstance(effects, str):
        return effects
    return effects.get(operation) if isinstance(operation, str) else None


def effect_of(action: Action) -> Effect | None:
    """What this call of a tool may change, as declared; None: nothing is declared, or no tool is called.

    An act that does not say it has the effect that the built-in tool of that name declares.
    """
    if action.declared_effect is not None or action.tool is None or not action.valid:
        return action.declared_effect
    return effect_in(BUILTIN_EFFECTS.get(action.tool, {}), action.args.get("operation"))
