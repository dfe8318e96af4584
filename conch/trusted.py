"""Refuses setups in which an agent could write to files that Conch reads or runs with the user's rights.

Otherwise the agent could change its own rewards, rules and guardrails, and run code outside its sandbox.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from conch.bus import find_binary
from conch.config import Settings
from conch.errors import BusUnreachableError, UsageError
from conch.experience import store_location
from conch.home import Home
from conch.processes import bubblewrap_programs
from conch.python_child import path_entries

MOST_LINKS = 40
"""Most links followed in one path, as in the kernel."""
_PACKAGES = ("conch", "conch_schemas", "conch_services")


def refuse_writable(home: Home, settings: Settings, config: Path | None, rules: Sequence[str]) -> None:
    """Raises UsageError where the workspace contains something that Conch reads or runs, itself or a link to it, or
    lies on one of the search paths for such files.

    `config`: the file that the settings were read from; `rules`: files of plug-ins.
    """
    workspace = workspace_in(home, settings)
    root = workspace.resolve()
    if _holds(root, home.path):
        raise UsageError(
            f"the workspace {workspace} holds the home {home.path}, whose token and store the agent must not see: "
            "name another --workspace"
        )
    if _is_in(root, home.path) and not root.is_relative_to(home.path.resolve() / "workspace"):
        raise UsageError(
            f"the workspace {workspace} lies in the home {home.path}, whose files the agent must not change: "
            f"take {home.workspace}, or name another --workspace"
        )
    for what, path in _files(home, settings, config, rules):
        if _holds(root, path):
            raise UsageError(
                f"{what} {path} lies in the workspace {workspace}, where the agent may change it: put it elsewhere, "
                "or name another --workspace"
            )
    for what, path in _code(settings):
        if _holds(root, path):
            raise UsageError(
                f"the workspace {workspace} holds {path} ({what}): the agent could change code that runs outside of "
                "its sandbox; install conch in a directory of its own (pipx install conch-agent), or name another "
                "--workspace"
            )
    for directory in _libraries():
        if _is_in(root, directory):
            raise UsageError(
                f"the workspace {workspace} lies in {directory}, which Python imports from: name another --workspace"
            )
    for entry in _searched():
        if _holds(root, entry):
            raise UsageError(
                f"Python looks for modules in {entry}, which lies in the workspace {workspace}: leave it out of "
                "PYTHONPATH, and start conch itself instead of python -m"
            )


def without_writable_programs(home: Home, settings: Settings, path: str) -> str:
    """PATH without the directories in which an agent may write."""
    root = workspace_in(home, settings).resolve()
    entries = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry) and not _holds(root, Path(entry))]
    return os.pathsep.join(entries)


def workspace_in(home: Home, settings: Settings) -> Path:
    """The agent's workspace; several agents have directories below it."""
    return Path(settings.workspace) if settings.workspace is not None else home.workspace


def _files(home: Home, settings: Settings, config: Path | None, rules: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The files that are read, with a name for each."""
    bus, edge = settings.bus, settings.edge
    named = {
        **{f"{name}.script": one.script for name, one in settings.mind.blocks().items()},
        "values.file": settings.values.file,
        "bus.server": bus.server if bus.server is not None and os.sep in bus.server else None,
        "bus.nkey": bus.nkey,
        "bus.credentials": bus.credentials,
        **{f"bus.tls.{name}": getattr(bus.tls, name) for name in ("ca", "certificate", "key")},
        **{f"edge.tls.{name}": getattr(edge.tls, name) for name in ("ca", "certificate", "key")},
        **{f"rewards.judges.{name}.rubric": judge.rubric for name, judge in settings.rewards.judges.items()},
    }
    yield from (("the configuration file", file) for file in (config, home.config_file) if file is not None)
    yield from (("the rules file", Path(rule)) for rule in rules)
    yield from (("the tools file", Path(file)) for file in settings.tools.files)
    yield from ((name, Path(file)) for name, file in named.items() if file is not None)
    store = store_location(settings.store.url, home.path)
    if store.file is not None:
        yield "store.url", store.file
    yield "the directory of your keys", keys_directory()


def keys_directory() -> Path:
    """The directory of a user's own secret keys, by the XDG base directories."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(config if os.path.isabs(config) else os.path.expanduser("~/.config")) / "conch"


def _code(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The code that is run."""
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable):
        yield "the Python that conch runs on", Path(prefix)
    for directory in _packages():
        yield "conch's own code", directory
    for directory in (*_libraries(), Path(site.getusersitepackages())):
        yield "packages that conch imports", directory
    if sys.pycache_prefix is not None:
        yield "PYTHONPYCACHEPREFIX", Path(sys.pycache_prefix)
    for program in (*bubblewrap_programs(), _server(settings)):
        if program is not None:
            yield "a program that conch starts", Path(program)


def _packages() -> list[Path]:
    found = [find_spec(package) for package in _PACKAGES]
    return [Path(place) for spec in found if spec is not None for place in spec.submodule_search_locations or ()]


def _libraries() -> list[Path]:
    """Directories used by Python alone, where any new file may be imported."""
    paths = sysconfig.get_paths()
    own = [Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
    others = [Path(entry) for entry in sys.path if entry.endswith("-packages")]
    return list(dict.fromkeys([*own, *others, *_packages()]))


def _server(settings: Settings) -> str | None:
    try:
        return find_binary(settings.bus.server)
    except BusUnreachableError:
        return None


def _searched() -> Iterator[Path]:
    """Directories on the import paths of this process and its children."""
    yield from map(Path, path_entries(os.environ.get("PYTHONPATH", "")))
    yield from (Path(entry).absolute() for entry in sys.path)
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name.startswith("conch.") and not sys.flags.safe_path:
        yield Path.cwd()  # python -m; imports before conch takes it off the path come from there, too


def _is_in(root: Path, directory: Path) -> bool:
    return root.is_relative_to(directory.resolve())


def _holds(root: Path, path: Path) -> bool:
    """Whether the target of `path` lies in `root`, which is resolved, or the way to it leads through `root`."""
    *passed, end = _passed(path.absolute())
    return end.is_relative_to(root) or any(root in place.parents for place in passed)


def _passed(path: Path, links: int = MOST_LINKS) -> Iterator[Path]:
    """The places on the way of a path: itself with its parents resolved, and the target of each link."""
    if path.parent == path:
        yield path
        return
    *above, directory = _passed(path.parent, links)
    yield from above
    yield directory
    place = directory / path.name if path.name != ".." else directory.parent
    yield place
    if links and place.is_symlink():
        yield from _passed(directory / place.readlink(), links - 1)
