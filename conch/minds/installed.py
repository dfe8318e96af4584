"""Minds that installed packages register: entry points of the group `conch.minds`, by the name of `mind.kind`."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from conch.config import MIND_GROUP, MINDS, MindSettings, OneMindSettings
from conch.errors import ConfigError, ModelError
from conch.installed import TrialError, answer_of_trial, entry_points_of, error_words, tried
from conch.log import get_logger
from conch.minds.protocol import Completion, Mind, MindWrapper, Prompt, ScriptEnded
from conch.python_child import python_command
from conch_schemas import ExperienceRecorded

log = get_logger(__name__)

MEMBERS: Final = ("kind", "learns", "model", "complete", "learn", "close")
"""What a mind has, by the protocol `Mind`."""


@dataclass(frozen=True)
class MindStart:
    """What a registered mind is made from, for one agent."""

    settings: OneMindSettings
    """The settings under `section`; `extra` has those of the mind's own."""
    section: str
    """Their key, such as `mind` or `mind.fallbacks[0]`, for error sentences."""
    seed: int
    """Of its random choices."""
    memory: Path
    """A path in the agent's directory for a file or directory of its own; nothing is there at first."""


MakeMind = Callable[[MindStart], Mind]
"""What an entry point of `conch.minds` names: a class or a function."""


def installed_minds() -> list[EntryPoint]:
    """The registered minds of the installed packages; nothing is imported."""
    return entry_points_of([MIND_GROUP])[0]


def why_not(kind: str) -> str | None:
    """Why the registered mind of this name cannot be used, found in a process of its own; None where it can."""
    try:
        why: str | None = tried(python_command("conch.minds.installed", kind), json.loads)
        return why
    except TrialError as error:
        return str(error)


def refuse_minds(settings: MindSettings) -> None:
    """Raises ConfigError for a registered mind of these settings that cannot be used."""
    for section, one in settings.blocks().items():
        if one.kind not in MINDS and (why := why_not(one.kind)):
            raise ConfigError(_refused(section, one.kind, why))


def make_installed(start: MindStart) -> Mind:
    """The registered mind of `start.settings.kind`, made in this process. Raises ConfigError where its package is
    broken, or what it makes is no mind."""
    kind = start.settings.kind
    try:
        made = _load(kind)(start)
        problem = _problem(made, kind)
    except ConfigError:
        raise
    except Exception as error:
        problem = error_words(error, None)
    if problem:
        raise ConfigError(_refused(start.section, kind, problem))
    return InstalledMind(made, start.settings.timeout)


def _refused(section: str, kind: str, why: str) -> str:
    return f"{section}.kind {kind}, which a package registers in {MIND_GROUP}, cannot be used: {why}"


def _load(kind: str) -> MakeMind:
    points = [point for point in installed_minds() if point.name == kind]
    if len(points) != 1:
        by = f" ({', '.join(sorted(point.value for point in points))}): uninstall all but one" if points else ""
        raise TypeError(f"{len(points)} installed packages register it{by}")
    make: object = points[0].load()
    if not callable(make):
        raise TypeError(f"{points[0].value} is neither a class nor a function that makes a mind")
    if isinstance(make, type) and (lacking := _lacking(vars_of(make))):
        raise TypeError(f"{points[0].value} is no mind: it has no {lacking[0]}")
    return make


def vars_of(kind: type) -> Iterable[str]:
    """Names that objects of a class have, as far as the class says."""
    return {*dir(kind), *(name for one in kind.__mro__ for name in vars(one).get("__annotations__", ()))}


def _lacking(names: Iterable[str]) -> list[str]:
    has = set(names)
    return [name for name in ("complete", "learn", "close") if name not in has]


def _problem(mind: object, kind: str) -> str:
    """What keeps it from being a mind of this kind; empty where nothing does."""
    for name in MEMBERS:
        if not hasattr(mind, name):
            return f"it made a {type(mind).__name__}, which is no mind: it has no {name}"
    for name in ("complete", "close"):
        if not inspect.iscoroutinefunction(getattr(mind, name)):
            return f"its {name} must be an async function"
    told = getattr(mind, "kind", None), getattr(mind, "learns", None), getattr(mind, "model", None)
    if told[0] != kind:
        return f"its kind is {told[0]!r}, and must be {kind!r}, the name of its entry point"
    if not isinstance(told[1], bool) or not isinstance(told[2], str):
        return "its learns must be True or False, and its model a text"
    return ""


class InstalledMind(MindWrapper):
    """A registered mind, whose faults are those of an endpoint: an error, a wrong reply or one that takes longer than
    `mind.timeout` is a ModelError, and what it raises when it learns or closes is logged."""

    def __init__(self, mind: Mind, timeout: float) -> None:
        """`timeout`: seconds for one reply."""
        super().__init__(mind)
        self._timeout = timeout

    async def complete(self, prompt: Prompt) -> Completion:
        """Its reply. Raises ModelError and ScriptEnded."""
        try:
            async with asyncio.timeout(self._timeout) as scope:
                reply = await self.mind.complete(prompt)
        except (ModelError, ScriptEnded):
            raise
        except Exception as error:
            if scope.expired():
                raise ModelError(f"the mind {self.kind} took longer than {self._timeout:g} seconds") from None
            raise ModelError(f"the mind {self.kind} failed: {error_words(error, None)}") from error
        if not isinstance(reply, Completion) or not isinstance(reply.text, str):
            raise ModelError(f"the mind {self.kind} gave a {type(reply).__name__}, not a Completion with a text")
        return reply

    def learn(self, experience: ExperienceRecorded) -> None:
        """Let it learn. Never raises."""
        try:
            self.mind.learn(experience)
        except Exception as error:
            log.warning("mind.learn_failed", mind=self.kind, error=error_words(error, None))

    async def close(self) -> None:
        """Close it. Never raises."""
        try:
            await self.mind.close()
        except Exception as error:
            log.warning("mind.close_failed", mind=self.kind, error=error_words(error, None))


def _main() -> None:
    """`python -m conch.minds.installed KIND`: why it cannot be used, or null, as JSON on stdout."""
    from conch.minds.installed import _load as loaded  # not `__main__`'s: the package meets the one module

    def answer() -> str:
        try:
            loaded(sys.argv[1])
        except BaseException as error:
            return json.dumps(str(error) if type(error) is TypeError else error_words(error, None))
        return json.dumps(None)

    answer_of_trial(answer)


if __name__ == "__main__":
    _main()
