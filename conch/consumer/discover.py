"""Where rules and consumers come from: entry points and named files.

Plug-ins are looked at in a process of their own, so that one that hangs, exits or raises when it is imported is named
and set aside, and the rest runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from conch.config import Settings
from conch.consumer.declare import spec_of
from conch.consumer.emitted import emitted
from conch.consumer.spec import ConsumerSpec, RuleSpec
from conch.errors import ContractError, UsageError

BUILTIN_GROUP = "conch.builtin"
"""Entry points of the services that come with Conch: `(ServiceContext) -> ConsumerSpec | Service`."""
EDGE = frozenset({"mqtt", "devices"})
"""Those that run only where `edge.bridge` names a broker (devices: and there are some); they need the extra `edge`."""
PLUGIN_GROUPS = ("conch.rules", "conch.consumers")
"""Entry points of plug-ins: a decorated function, or a module of them."""
LOOK_SECONDS = 20.0


@dataclass(frozen=True)
class Plugin:
    """A plug-in that was found: what it is and where."""

    kind: str
    """rule or consumer."""
    name: str
    origin: str
    """A file's path, or `group:entry point`."""
    version: str
    weight: float = 0.0
    low: float = 0.0
    high: float = 1.0
    timeout: float | None = None
    doc: str = ""
    emits: Sequence[str] = ()
    """Of a consumer: the facts that it publishes, `reward.assigned`; empty: it does not say."""


@dataclass(frozen=True)
class Broken:
    """A plug-in that was set aside."""

    origin: str
    why: str


@dataclass(frozen=True)
class Found:
    """What discovery brought."""

    plugins: tuple[Plugin, ...] = ()
    broken: tuple[Broken, ...] = ()

    def of(self, kind: str) -> tuple[Plugin, ...]:
        """The rules, or the consumers."""
        return tuple(plugin for plugin in self.plugins if plugin.kind == kind)


def builtin_names() -> tuple[str, ...]:
    """Names of the services that come with Conch."""
    return tuple(point.name for point in entry_points(group=BUILTIN_GROUP))


def wanted_builtin(settings: Settings, skipped: Container[str]) -> list[str]:
    """Names of those that a run with these settings hosts, less the skipped ones.

    Raises UsageError where one needs a package that is not installed.
    """
    edge = settings.edge
    idle = EDGE if edge.bridge is None else () if edge.senses or edge.actuators else ("devices",)
    wanted = [name for name in builtin_names() if name not in skipped and name not in idle]
    for name in EDGE.intersection(wanted):
        if importlib.util.find_spec("aiomqtt") is None:
            raise _not_installed(name)
    return wanted


def builtin_services(names: Container[str]) -> dict[str, Callable[..., Any]]:
    """Those of the services that come with Conch, loaded: each makes its ConsumerSpec or Service from the settings.

    Raises UsageError where one needs a package that is not installed.
    """
    return {point.name: _loaded(point) for point in entry_points(group=BUILTIN_GROUP) if point.name in names}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError as missing:
        if point.name in EDGE and missing.name == "aiomqtt":
            raise _not_installed(point.name) from None
        raise


def _not_installed(name: str) -> UsageError:
    return UsageError(f"{name} needs the package aiomqtt: pip install 'conch-agent[edge]', or unset edge.bridge")


def _plugin_points() -> list[EntryPoint]:
    return [point for group in PLUGIN_GROUPS for point in entry_points(group=group)]


def discover(files: Sequence[str], taken: Iterable[str] = ()) -> Found:
    """Every plug-in of `files` and of the installed packages.

    Raises UsageError for a file that is not there. One that cannot be loaded, declares nothing, or bears a name in
    `taken` or a name that came before it, is among the broken ones.
    """
    for file in files:
        if not Path(file).is_file():
            raise UsageError(f"there is no file {file} (--rules)")
    origins = [str(Path(file).resolve()) for file in files]
    origins += [f"{point.group}:{point.name}" for point in _plugin_points()]
    plugins: list[Plugin] = []
    broken: list[Broken] = []
    names = set(taken)
    for origin in origins:
        looked = _look(origin)
        broken += looked.broken
        for plugin in looked.plugins:
            if plugin.name in names:
                broken.append(Broken(origin, f"the name {plugin.name!r} is taken"))
            else:
                names.add(plugin.name)
                plugins.append(plugin)
    return Found(tuple(plugins), tuple(broken))


def _look(origin: str) -> Found:
    """One origin, loaded in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "conch.consumer.discover", origin],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return Found(broken=(Broken(origin, f"it was still being imported after {LOOK_SECONDS:g} s"),))
    finally:
        _end(process)
    try:
        answer = json.loads(output)
        found, why = [Plugin(**plugin) for plugin in answer["plugins"]], answer["why"]
    except (LookupError, ValueError, TypeError):
        return Found(broken=(Broken(origin, f"importing it ended its process with status {process.returncode}"),))
    return Found(tuple(found), (Broken(origin, why),) if why else ())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started: one that lives on would hold its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def load(origin: str) -> list[RuleSpec | ConsumerSpec]:
    """What `origin` declares, in the order of the file. Raises whatever importing it raises."""
    group, _, name = origin.partition(":")
    if group in PLUGIN_GROUPS:
        points = [point for point in _plugin_points() if (point.group, point.name) == (group, name)]
        if len(points) != 1:
            raise ContractError(f"{len(points)} installed packages declare the entry point {origin}")
        thing = points[0].load()
    else:
        thing = _module_of(Path(origin))
    things = vars(thing).values() if isinstance(thing, ModuleType) else [thing]
    specs = {id(spec): spec for value in things if (spec := spec_of(value)) is not None}  # an alias is no second one
    if not specs:
        raise ContractError("it declares no @rule and no @consumer")
    return list(specs.values())


def _module_of(path: Path) -> ModuleType:
    """The file as a module, imported once."""
    name = f"conch_rules_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ContractError("it is no Python file (its name must end in .py)")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def load_one(origin: str, name: str) -> RuleSpec | ConsumerSpec:
    """The one of that name. Raises ContractError when the file has changed and it is gone."""
    for spec in load(origin):
        if spec.name == name:
            return spec
    raise ContractError(f"{origin} declares no {name!r} any more")


def _describe(spec: RuleSpec | ConsumerSpec, origin: str) -> Plugin:
    if isinstance(spec, ConsumerSpec):
        emits = [kind.TYPE for kind in emitted(spec)]
        return Plugin("consumer", spec.name, origin, spec.version, emits=emits)
    low, high = spec.range
    return Plugin("rule", spec.name, origin, spec.version, spec.weight, low, high, spec.timeout, spec.doc)


def _main() -> None:
    """`python -m conch.consumer.discover ORIGIN`: one JSON line on stdout; what the plug-in prints goes to stderr."""
    from conch.consumer.discover import load as loaded  # not `__main__`'s: plug-ins meet the one module

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    origin = sys.argv[1]
    answer: dict[str, Any] = {"plugins": [], "why": ""}
    try:
        answer["plugins"] = [asdict(_describe(spec, origin)) for spec in loaded(origin)]
    except (Exception, SystemExit) as error:
        answer["why"] = f"{type(error).__name__}: {error}"
    answers.write(json.dumps(answer))
    answers.flush()
    os._exit(0)  # whatever threads and exit handlers it brought


if __name__ == "__main__":
    _main()
