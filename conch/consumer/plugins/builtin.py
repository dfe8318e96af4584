"""The built-in consumers and services: declared and loaded like plug-ins, but run in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from functools import cache, partial

from conch.config import BUILTIN_COMPONENTS, OTLP_EXPORTER, Settings, is_installed, to_install
from conch.consumer.plugins.discover import (
    BUILTIN_GROUP,
    ConsumerInfo,
    bound,
    consumer_info,
    for_settings,
    instances,
    load_group,
)
from conch.consumer.services import Service, ServiceContext, ServiceDeclaration
from conch.consumer.spec import ConsumerDeclaration, ConsumerSpec
from conch.errors import UsageError
from conch.rules import DeclaredRule

PAGE = "dashboard"
"""The service that shows everything to people: in `conch run` a process of its own."""
_NEEDS = {"otel": (OTLP_EXPORTER, "otel", "otel.endpoint")}
"""Consumers that need an optional package: the package, the extra that installs it, the setting that enables it."""

Bound = Callable[[ServiceContext], ConsumerSpec | Service]
"""Makes a consumer, or a service, of the settings."""


def builtin_plugins(settings: Settings) -> dict[str, ConsumerInfo]:
    """Those that come with Conch by name, a judge for each that the settings name among them; enabled or not."""
    return {one.name: one for plugin, _ in _declared() for one in instances(plugin, settings)}


def builtin_names(settings: Settings) -> tuple[str, ...]:
    """Names of those that come with Conch, a judge for each that the settings name among them."""
    return tuple(builtin_plugins(settings))


def wanted_builtin(settings: Settings, skipped: Container[str]) -> list[str]:
    """Names of those that a run with these settings hosts, less the skipped ones.

    Raises UsageError where one needs a package that is not installed.
    """
    enabled = [one.name for plugin, _ in _declared() for one in for_settings(plugin, settings)]
    wanted = [name for name in enabled if name not in skipped]
    for name in wanted:
        _refuse_missing(name)
    return wanted


def builtin_services(names: Collection[str]) -> dict[str, Bound]:
    """Those of these names: each makes its ConsumerSpec or Service from the settings.

    Raises UsageError where one needs a package that is not installed.
    """
    found: dict[str, Bound] = {}
    for name in names:
        for plugin, declared in _declared():
            if plugin.instances is not None and name.startswith(f"{plugin.name}-"):
                found[name] = partial(bound, declared, name.removeprefix(f"{plugin.name}-"))
            elif plugin.name == name and plugin.instances is None:
                _refuse_missing(name)
                found[name] = partial(bound, declared, "")
    return found


def reserved(settings: Settings) -> frozenset[str]:
    """Names that no plug-in can bear: services and components that come with Conch, judges, and what others score."""
    rewards = settings.rewards
    return frozenset({*builtin_names(settings), *BUILTIN_COMPONENTS, *rewards.judges, *rewards.parts})


@cache
def _declared() -> tuple[tuple[ConsumerInfo, ConsumerDeclaration | ServiceDeclaration], ...]:
    """The declarations of the entry points `conch.builtin`. Slow imports happen when they are bound. Those with
    instances are the last."""
    found = load_group(BUILTIN_GROUP)
    known = [(consumer_info(one, origin), one) for origin, one in found if not isinstance(one, DeclaredRule)]
    return tuple(sorted(known, key=lambda one: one[0].instances is not None))


def _refuse_missing(name: str) -> None:
    """Raises UsageError where a package is not installed that this one needs."""
    if name in _NEEDS and not is_installed(_NEEDS[name][0]):
        package, extra, setting = _NEEDS[name]
        raise UsageError(f"{name} needs the package {package}: {to_install(extra)}, or unset {setting}")
