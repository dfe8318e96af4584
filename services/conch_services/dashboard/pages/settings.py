"""`/settings`: what is in force and why, what runs, and whether this machine is fit for it."""

from __future__ import annotations

import asyncio
import json
import platform
import sqlite3
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.bus.server import find_binary, version_of
from conch.config.load import read
from conch.config.source import dotted, leaves
from conch.errors import ConchError
from conch.views.checks import Finding, everything, python
from conch.views.config import config_in_force
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.page import page
from conch_services.dashboard.world import World

LIBRARIES = ("pydantic", "nats-py", "msgspec", "numpy", "starlette", "uvicorn", "sse-starlette", "jinja2", "structlog")
"""Distributions whose version is shown."""
VENDORED = {"htmx": "2.0.11", "uPlot": "1.6.32"}
"""As they lie in static/vendor."""
CHECK_SECONDS = 60.0
"""Time for all checks; the slowest ask servers, each with a bound of its own."""
AGAIN_SECONDS = 5.0
"""Presses of the button within it are one."""


async def settings(request: Request) -> Response:
    """Every setting with where it came from, the versions, the processes and plug-ins of the run."""
    world: World = request.app.state.world
    run = await asyncio.to_thread(world.home.running) or {}
    found = await asked(asyncio.to_thread(_in_force, world, run))
    versions = await kept(request, "versions", 3600.0).get("all", _versions)
    return await page(
        request,
        "settings.html",
        {
            "groups": _groups(found.found) if found.found is not None else (),
            "file": found.found["file"] if found.found is not None else None,
            "why": found.why,
            "run": run,
            "home": str(world.home.path),
            "store": str(world.store),
            "versions": versions,
            "after": world.hub.last,
        },
    )


async def doctor(request: Request) -> Response:
    """Everything that `conch doctor` looks at, looked at now."""
    world: World = request.app.state.world
    found = await asked(kept(request, "doctor", AGAIN_SECONDS).get("all", lambda: _checked(world)))
    return await page(request, "doctor.html", {"findings": found.found or (), "why": found.why})


def _in_force(world: World, run: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ConfigError, where what stands in the file now cannot be."""
    file = run.get("config")
    return config_in_force(world.settings, read(Path(file) if file else None, world.home, {}))


def _groups(shown: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Section -> its settings."""
    rows = [
        {"key": dotted(path), "value": json.dumps(value, ensure_ascii=False), "origin": shown["origins"][dotted(path)]}
        for path, value in leaves(shown["settings"])
    ]
    whole = [row for row in rows if "." not in row["key"]]
    others = sorted((row for row in rows if "." in row["key"]), key=_section)
    return [("general", whole), *((name, list(group)) for name, group in groupby(others, key=_section))]


def _section(row: Mapping[str, Any]) -> str:
    return str(row["key"]).partition(".")[0]


async def _versions() -> list[tuple[str, str]]:
    return [
        ("conch", version("conch-agent")),
        ("Python", platform.python_version()),
        ("nats-server", await asyncio.to_thread(_server)),
        ("SQLite", sqlite3.sqlite_version),
        *((name, _version(name)) for name in LIBRARIES),
        *VENDORED.items(),
    ]


def _server() -> str:
    try:
        return version_of(find_binary())
    except (ConchError, OSError, subprocess.SubprocessError) as error:
        return f"not known: {error}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


async def _checked(world: World) -> list[Finding]:
    """Raises ConchError where the checks take too long."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return [python(), *await everything(world.settings, world.home)]
    except TimeoutError:
        raise ConchError(f"the checks were not over after {CHECK_SECONDS:g} s: conch doctor has no bound") from None


ROUTES = [Route("/settings", settings), Route("/settings/doctor", doctor, methods=["POST"])]
