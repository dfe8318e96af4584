"""Loads the settings: conch.yaml < `CONCH_*` environment < command line.

Plain pydantic and two small readers instead of pydantic-settings, which knows neither the line of a key nor the source
of a value, ignores unknown top-level variables, and takes as long to import as this whole module takes to run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from conch.config.environment import read_environment, read_standard
from conch.config.explain import explain
from conch.config.model import Settings
from conch.config.model.section import SettingsSection
from conch.config.source import KeyPath, SettingsLayer, dotted, leaves, merged
from conch.config.yaml_file import read_file
from conch.home import Home


@dataclass(frozen=True)
class LoadedSettings:
    """The settings, with their file and layers."""

    settings: Settings
    file: Path | None
    """The file that was read; None: there is none."""
    sources: tuple[SettingsLayer, ...]
    """The weakest first."""

    def origins(self) -> dict[str, str]:
        """Key -> the place of its effective value, or `default`. What a part of the mind took from `mind` has the place
        there."""
        values = dict(leaves(self.settings.model_dump(mode="json")))
        return {dotted(path): self._place(path) or self._taken(path, values) or "default" for path in values}

    def _place(self, path: KeyPath) -> str | None:
        return next((source.places[path] for source in reversed(self.sources) if path in source.places), None)

    def _taken(self, path: KeyPath, values: Mapping[KeyPath, object]) -> str | None:
        whole = ("mind", *path[2:])
        is_part = path[:2] in (("mind", "think"), ("mind", "decide"))
        return self._place(whole) if is_part and values[path] == values.get(whole) else None


def load(file: Path | None, home: Home, overrides: Mapping[str, object]) -> Settings:
    """The effective settings.

    `file`: the given path, otherwise that of CONCH_CONFIG, otherwise the home's if it exists. `overrides`: nested like
    the model; a value of None is left out. Raises ConfigError, one sentence: place, key, problem.
    """
    found = read(file, home, overrides)
    return _anchored(found.settings, found.file or home.config_file)


def read(file: Path | None, home: Home, overrides: Mapping[str, object]) -> LoadedSettings:
    """The effective settings with the source of each value. Raises ConfigError."""
    chosen = chosen_file(file, home)
    named = (
        *([read_file(chosen)] if chosen is not None else []),
        read_environment(os.environ),
        _command_line(overrides),
    )
    mind = _merged(named).get("mind")
    base_url = mind.get("base_url") if isinstance(mind, Mapping) else None
    sources = (read_standard(os.environ, None if base_url is None else str(base_url)), *named)
    values = _merged(sources)
    try:
        return LoadedSettings(Settings.model_validate(values), chosen, sources)
    except ValidationError as error:
        raise explain(error, sources) from None


def _merged(sources: Iterable[SettingsLayer]) -> dict[str, object]:
    values: dict[str, object] = {}
    for source in sources:
        values = merged(values, source.values)
    return values


def _anchored(settings: Settings, file: Path) -> Settings:
    """The settings with every path made absolute, as child processes have another current directory.

    The files of rewards.judges, of `values` and of `tools` are relative to the settings' own file, all others to the
    current directory.
    """

    def at(named: str) -> str:
        return str(file.absolute().parent / Path(named).expanduser())

    changed: dict[str, object] = {
        "workspace": _absolute(settings.workspace),
        "mind": settings.mind.each(lambda one: {"script": _absolute(one.script)}),
        "bus": _with_absolute(settings.bus, "nkey", "credentials").model_copy(
            update={
                "tls": _with_absolute(settings.bus.tls, "ca", "certificate", "key"),
                "server": _program(settings.bus.server),
            }
        ),
        "edge": settings.edge.model_copy(update={"tls": _with_absolute(settings.edge.tls, "ca", "certificate", "key")}),
    }
    if settings.rewards.judges:
        judges = {
            name: judge.model_copy(update={"rubric": at(judge.rubric)})
            for name, judge in settings.rewards.judges.items()
        }
        changed["rewards"] = settings.rewards.model_copy(update={"judges": judges})
    if settings.tools.files:
        changed["tools"] = settings.tools.model_copy(update={"files": tuple(map(at, settings.tools.files))})
    if settings.values.file is not None:
        changed["values"] = settings.values.model_copy(update={"file": at(settings.values.file)})
    return settings.model_copy(update=changed)


def _with_absolute(section: SettingsSection, *names: str) -> Any:
    return section.model_copy(update={name: _absolute(getattr(section, name)) for name in names})


def _absolute(named: str | None) -> str | None:
    return None if named is None else str(Path(os.path.expanduser(named)).absolute())


def _program(named: str | None) -> str | None:
    """A program name, resolved on PATH if it has no directory."""
    return _absolute(named) if named is not None and (os.sep in named or named.startswith("~")) else named


def chosen_file(file: Path | None, home: Home) -> Path | None:
    """The file to read; None: none was given and the home has none."""
    named = file or (Path(given) if (given := os.environ.get("CONCH_CONFIG")) else None)
    if named is not None:
        return named.expanduser()
    return home.config_file if os.path.lexists(home.config_file) else None


def _command_line(overrides: Mapping[str, object]) -> SettingsLayer:
    values = _given(overrides)
    return SettingsLayer(values, {path: "command line" for path, _ in leaves(values)})


def _given(values: Mapping[str, object]) -> dict[str, object]:
    """The values without None, with paths as text."""
    said: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = _given(value) or None
        if value is not None:
            said[key] = str(value) if isinstance(value, PurePath) else value
    return said
