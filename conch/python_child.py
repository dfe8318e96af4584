"""Command lines and environments for Conch's own Python child processes.

Their current directory is never the user's, and is not on the import path: an agent may write there.
"""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Mapping
from pathlib import Path

DIRECTORY = "/"
"""The current directory of every child: it always exists, and no agent may write there."""

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""The bandit's matrices are small: a second thread of numpy's would only spin, and take a core from the rest."""
_OF_SETTINGS = "CONCH_"
_SECRET = re.compile(r"(^|_)(API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)", re.I)
"""Names of variables that usually hold secrets."""
_FOR_PLUGINS = "PLUGIN_"
"""Prefix of names that are passed to plug-ins even if they look like secrets."""
_PYTHON = "PYTHON"
_HARMLESS = frozenset(
    {
        "PYTHONASYNCIODEBUG",
        "PYTHONDEVMODE",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONMALLOC",
        "PYTHONTRACEMALLOC",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
        "PYTHONWARNINGS",
    }
)
"""Variables of the interpreter that name no place to load code from and run nothing."""
_PLACES = frozenset({"PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"})
"""Variables of the interpreter that name a directory: passed on where the path is absolute."""


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line of a child that runs `module`. It has the user's site-packages only where we have them: a
    directory that is created there later is not searched."""
    user_site = site.ENABLE_USER_SITE and site.getusersitepackages() in sys.path
    return [sys.executable, "-P", *([] if user_site else ["-s"]), "-m", module, *arguments]


def environment(
    inherited: Mapping[str, str] | None = None, *, settings: bool = False, secrets: bool = False
) -> dict[str, str]:
    """The variables of a child, out of those `inherited` (None: our own); by default, as for a plug-in.

    `settings`: with `CONCH_*`, for a command that reads its settings itself. `secrets`: with variables whose names look
    like secrets; without it, a plug-in still gets those with the prefix `PLUGIN_`.
    """
    ours = os.environ if inherited is None else inherited
    kept = {
        name: value
        for name, value in ours.items()
        if (settings or not name.startswith(_OF_SETTINGS))
        and (secrets or not _SECRET.search(name) or name.startswith((_FOR_PLUGINS, _OF_SETTINGS)))
        and (not name.startswith(_PYTHON) or name in _HARMLESS or (name in _PLACES and os.path.isabs(value)))
    }
    return kept | ({"PYTHONPATH": path} if (path := _path(ours.get("PYTHONPATH", ""))) else {})


def path_entries(path: str) -> list[str]:
    """The directories in a PYTHONPATH, absolute: an empty or relative one is relative to our current directory."""
    return [str(Path(entry).absolute()) for entry in path.split(os.pathsep)] if path else []


def _path(inherited: str) -> str:
    """PYTHONPATH of a child. Where we run from a folder that only `python -m` put on the path, it is included."""
    entries = path_entries(inherited)
    folder = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join([*entries, *([] if folder in (*entries, *map(os.path.realpath, sys.path)) else [folder])])
