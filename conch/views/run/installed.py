"""The minds and tools that installed packages register, as `conch doctor` and `conch config validate` show them."""

from __future__ import annotations

from conch.config import MIND_GROUP, MINDS, Settings
from conch.minds import installed_minds, why_not
from conch.tools import installed_tools
from conch.views.base import View
from conch.views.run.checks import DoctorFinding


class RegisteredPlugin(View):
    """A mind or a tool that an installed package registers."""

    origin: str
    """`conch.minds:NAME`, `conch.tools:NAME`, or `package NAME`."""
    what: str
    """The kind of mind, or the tool's signature and description; empty where it cannot be used."""
    why: str
    """Why it cannot be used; empty where it can."""


def registered() -> tuple[RegisteredPlugin, ...]:
    """All of them, each tried in a process of its own."""
    tools = installed_tools()
    return (
        *(_mind(kind) for kind in sorted({point.name for point in installed_minds()})),
        *(RegisteredPlugin(origin=tool.origin, what=tool.described, why="") for tool in tools.tools),
        *(RegisteredPlugin(origin=origin, what="", why=why) for origin, why in tools.set_aside),
    )


def _mind(kind: str) -> RegisteredPlugin:
    if kind in MINDS:
        why: str | None = f"the name {kind!r} is taken by a mind of Conch: give the entry point another name"
    else:
        why = why_not(kind)
    return RegisteredPlugin(origin=f"{MIND_GROUP}:{kind}", what="" if why else f"mind.kind: {kind}", why=why or "")


def plugin_findings(settings: Settings) -> list[DoctorFinding]:
    """A finding for each of them; a mind that cannot be used is a problem where the settings name it."""
    used = {f"{MIND_GROUP}:{one.kind}" for one in settings.mind.blocks().values() if one.kind not in MINDS}
    return [_finding(one, one.origin in used) for one in registered()]


def _finding(one: RegisteredPlugin, used: bool) -> DoctorFinding:
    if not one.why:
        return DoctorFinding(one.origin, "ok", one.what)
    if used:
        return DoctorFinding(one.origin, "problem", one.why, "a run is refused until that is mended")
    return DoctorFinding(one.origin, "warning", one.why, "it is set aside: mend or uninstall its package")
