"""run.json: the file by which a run in progress tells other commands of its home its bus, processes and addresses.

The file's keys are stable: commands of earlier and later versions read it too. This module is a layer below the bus and
the processes, which read and write it: a command finds the bus of a run by it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from conch.rules import RuleInfo
from conch_schemas.envelope import AGENT_PATTERN

_RULE: Final = TypeAdapter(RuleInfo)


class _RunInfoPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BusLocation(_RunInfoPart):
    """The address of the run's bus, and its credentials."""

    url: str = ""
    """Its addresses, without a user."""
    embedded: bool = False
    """Whether it is the run's own server."""
    user: str | None = None
    """The user of the run's own server, as is the token; secrets of other servers are not written."""
    token: str | None = None

    @field_validator("url")
    @classmethod
    def _has_no_user(cls, url: str) -> str:
        if "@" in url:
            raise ValueError("the address of a run's bus holds no user")
        return url


class ProcessInfo(_RunInfoPart):
    """A process of the run."""

    name: str
    pid: int | None = None
    """None: it does not run."""
    state: str
    """starting, up, failing, silent, restarting, down, ended."""
    restarts: int = 0
    why: str = ""
    """Why it is in that state."""


class SetAsidePlugin(_RunInfoPart):
    """A plug-in that could not be used."""

    origin: str
    why: str


class RunInfo(_RunInfoPart):
    """The contents of run.json."""

    pid: int
    """The run's own process id."""
    agents: tuple[Annotated[str, Field(pattern=AGENT_PATTERN)], ...] = ()
    """Names of those that act in it."""
    has_agent: bool = Field(default=True, exclude_if=lambda has_agent: has_agent)
    """Whether agents of Conch's own act in it; else programs do, by `conch.agent`."""
    config: str | None = None
    """Path of the configuration that was read."""
    started: str | None = None
    """When, in ISO 8601."""
    bus: BusLocation = BusLocation()
    metrics: str | None = None
    """Address of `/metrics`; None: there is none yet."""
    ui: str | None = None
    """Address of the dashboard; None: there is none yet."""
    mqtt: str | None = None
    """Address of the embedded server's MQTT listener."""
    store: str | None = None
    """Path of the experience store."""
    workspace: str | None = None
    """Directory that the agents work in."""
    processes: tuple[ProcessInfo, ...] = ()
    consumers: tuple[str, ...] = ()
    """Names of all that are hosted in this run."""
    rules: tuple[dict[str, object], ...] = ()
    """The plug-in rules, described as where they were found."""
    set_aside: tuple[SetAsidePlugin, ...] = ()

    @field_validator("config", "store", "workspace")
    @classmethod
    def _is_path(cls, path: str | None) -> str | None:
        if path is not None and "\0" in path:
            raise ValueError("a path holds no NUL")
        return path

    @field_validator("rules")
    @classmethod
    def _are_rules(cls, rules: tuple[dict[str, object], ...]) -> tuple[dict[str, object], ...]:
        for one in rules:
            _RULE.validate_json(_text(one), strict=True)
        return rules

    def encode(self) -> str:
        """The text of the file."""
        found = self.model_dump(mode="json")
        found["bus"] = {key: value for key, value in found["bus"].items() if value is not None}
        return _text(found)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The content of the file. Raises ValueError for anything else."""
        try:
            return cls.model_validate_json(_text(json.loads(data)))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def _text(value: Any) -> str:
    """The value as JSON; a path need not be UTF-8: what cannot be encoded of it is shown as `?`."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
