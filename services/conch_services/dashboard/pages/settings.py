"""`/settings`: the settings in force and their origin, the processes that run, and the checks of `conch doctor`."""

from __future__ import annotations

import asyncio
import json
import platform
import sqlite3
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.bus import find_binary, version_of
from conch.config import KeyPath, Settings, dotted, leaves, masked, read
from conch.consumer.plugins import rules_of
from conch.errors import ConchError
from conch.run_info import RunInfo
from conch.views import Config, DoctorFinding, about, all_checks, check_words, config_in_force, python_check
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.page import page
from conch_services.dashboard.world import DashboardContext

LIBRARIES = ("pydantic", "nats-py", "msgspec", "numpy", "starlette", "uvicorn", "sse-starlette", "jinja2", "structlog")
"""Distributions that the page shows the version of."""
VENDORED = {"htmx": "4.0.1", "uPlot": "1.6.32"}
"""Versions of the libraries in static/vendor."""
CHECK_SECONDS = 60.0
"""Time for all checks; the slowest ask servers, each with a bound of its own."""
AGAIN_SECONDS = 5.0
"""Presses of the button within it are one."""


async def settings(request: Request) -> Response:
    """Every setting with where it came from, the versions, the processes and plug-ins of the run."""
    world: DashboardContext = request.app.state.world
    run = await asyncio.to_thread(world.home.running)
    found = await asked(asyncio.to_thread(_in_force, world, run))
    versions = await kept(request, "versions", 3600.0).get("all", lambda: _versions(world.settings))
    return await page(
        request,
        "settings.html",
        {
            "groups": _groups(found.found) if found.found is not None else (),
            "goals": [
                (masked(one.statement), masked(check_words(one.check, hidden=one.hidden)), one)
                for one in world.settings.goals
            ],
            "file": found.found.file if found.found is not None else None,
            "why": found.why,
            "run": run,
            "rules": rules_of(run.rules) if run is not None else (),
            "home": str(world.home.path),
            "store": str(world.store),
            "versions": versions,
            "after": world.hub.last,
        },
    )


async def doctor(request: Request) -> Response:
    """The findings of `conch doctor`, checked now."""
    world: DashboardContext = request.app.state.world
    found = await asked(kept(request, "doctor", AGAIN_SECONDS).get("all", lambda: _checked(world)))
    return await page(request, "doctor.html", {"findings": found.found or (), "why": found.why})


def _in_force(world: DashboardContext, run: RunInfo | None) -> Config:
    """Raises ConfigError where the file's present content is invalid."""
    file = run.config if run is not None else None
    return config_in_force(world.settings, read(Path(file) if file else None, world.home, {}))


@dataclass(frozen=True)
class _SettingRow:
    """A setting as the page shows it."""

    key: str
    """Its dotted path."""
    value: str
    origin: str
    """Where its value comes from; `default` for one that is not set."""
    about: str
    """What it does, a sentence."""

    @property
    def is_default(self) -> bool:
        """Whether it is not set."""
        return self.origin == "default"


def _groups(shown: Config) -> list[tuple[str, str, list[_SettingRow]]]:
    """(section, its sentence, its settings): what is of no section comes first, and in each what is no default."""
    of: dict[str, list[_SettingRow]] = {}
    for path, value in leaves(shown.settings):
        key = dotted(path)
        row = _SettingRow(key, _words(value), shown.origins[key], about(path).replace("*", ""))
        of.setdefault(_section(path), []).append(row)
    return [
        (
            name,
            about((name,)).replace("*", "") if name else "Of the agent as a whole.",
            sorted(of[name], key=lambda row: row.origin == "default"),
        )
        for name in sorted(of, key=lambda name: ["", *Settings.model_fields].index(name))
    ]


def _section(path: KeyPath) -> str:
    """The section of a key; empty for a key without one. Goals are a section of their own."""
    return str(path[0]) if len(path) > 1 or path[0] == "goals" else ""


def _words(value: Any) -> str:
    """A value as it is read: `none` for what is not set, the parts of a list with commas."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list) and not any(isinstance(one, (dict, list)) for one in value):
        return ", ".join(_words(one) for one in value)
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


async def _versions(in_force: Settings) -> list[tuple[str, str]]:
    return [
        ("conch", version("conch-agent")),
        ("Python", platform.python_version()),
        ("nats-server", await asyncio.to_thread(_server, in_force)),
        ("SQLite", sqlite3.sqlite_version),
        *((name, _version(name)) for name in LIBRARIES),
        *VENDORED.items(),
    ]


def _server(in_force: Settings) -> str:
    try:
        return version_of(find_binary(in_force.bus.server))
    except (ConchError, subprocess.SubprocessError) as error:
        return f"not known: {error}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


async def _checked(world: DashboardContext) -> list[DoctorFinding]:
    """Raises ConchError where the checks take too long."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return [python_check(), *await all_checks(world.settings, world.home)]
    except TimeoutError:
        raise ConchError(f"the checks were not over after {CHECK_SECONDS:g} s: conch doctor has no bound") from None


ROUTES = [Route("/settings", settings), Route("/settings/doctor", doctor, methods=["POST"])]
