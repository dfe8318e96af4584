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
import traceback
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from conch.config import BUILTIN_COMPONENTS, Settings
from conch.config.environment import OTLP_EXPORTER, is_installed, to_install
from conch.consumer.declare import spec_of
from conch.consumer.emitted import emitted
from conch.consumer.plugins.namespace import exit_status, own_namespace
from conch.consumer.spec import ConsumerSpec, RuleSpec
from conch.errors import ContractError, UsageError
from conch.files import read_plain
from conch.python_child import DIRECTORY, environment, python_command

BUILTIN_GROUP = "conch.builtin"
"""Entry points of the services that come with Conch: `(ServiceContext) -> ConsumerSpec | Service`."""
EDGE = frozenset({"mqtt", "devices"})
"""Services that run only where `edge.bridge` names a broker (devices: and where there are some)."""
OTEL = "otel"
"""The one that runs only where `otel.endpoint` names an endpoint; it needs the extra of its name."""
JUDGE = "judge"
"""The one of them that there is for each of `rewards.judges`, as `judge-NAME`: `(ServiceContext, NAME) -> …`."""
PAGE = "dashboard"
"""The service that shows everything to people: in `conch run` a process of its own."""
PLACELESS = frozenset({"metrics", OTEL, PAGE})
"""Those that begin at the end of the stream and keep no place: several may run beside one another."""
PLUGIN_GROUPS = ("conch.rules", "conch.consumers")
"""Entry points of plug-ins: a decorated function, or a module of them."""
MOST_BYTES = 4 * 2**20
"""Of a file of plug-ins."""
LOOK_SECONDS = 20.0
LOOKERS = 4
"""Plug-ins that are looked at side by side: one that hangs keeps no other waiting."""


@dataclass(frozen=True)
class DiscoveredPlugin:
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
    held_out: bool = False
    """Of a rule: never paid, never trained on."""
    stateful: bool = False
    """Of a rule: it has a state of its own."""
    window: int | None = None
    """Of a rule: acts that it is given at most; None: the one to be scored."""
    text: str | None = None
    """Of a file: its text when it was looked at, which is what runs. None: what is there when it is loaded."""

    @property
    def consumer(self) -> str:
        """Under which name it reads the stream."""
        return f"rule-{self.name}" if self.kind == "rule" else self.name


@dataclass(frozen=True)
class BrokenPlugin:
    """A plug-in that was set aside."""

    origin: str
    why: str
    text: str | None = None
    """Of a file: what it said, where that could be read."""


@dataclass(frozen=True)
class Discovery:
    """What discovery brought."""

    plugins: tuple[DiscoveredPlugin, ...] = ()
    broken: tuple[BrokenPlugin, ...] = ()

    def of(self, kind: str) -> tuple[DiscoveredPlugin, ...]:
        """The rules, or the consumers."""
        return tuple(plugin for plugin in self.plugins if plugin.kind == kind)


def builtin_names(settings: Settings) -> tuple[str, ...]:
    """Names of the services that come with Conch, a judge for each that the settings name among them."""
    names = [point.name for point in _points(BUILTIN_GROUP) if point.name != JUDGE]
    return (*names, *(f"{JUDGE}-{name}" for name in settings.rewards.judges))


def wanted_builtin(settings: Settings, skipped: Container[str]) -> list[str]:
    """Names of those that a run with these settings hosts, less the skipped ones.

    Raises UsageError where one needs a package that is not installed.
    """
    edge = settings.edge
    idle = {*(EDGE if edge.bridge is None else () if edge.senses or edge.actuators else ("devices",))}
    if settings.otel.endpoint is None:
        idle.add(OTEL)
    wanted = [name for name in builtin_names(settings) if name not in skipped and name not in idle]
    if PAGE in wanted and not settings.ui.enabled:
        wanted.remove(PAGE)
    if OTEL in wanted and not is_installed(OTLP_EXPORTER):
        raise _no_exporter()
    return wanted


def builtin_services(names: Collection[str]) -> dict[str, Callable[..., Any]]:
    """Those of the services that come with Conch, loaded: each makes its ConsumerSpec or Service from the settings.

    Raises UsageError where one needs a package that is not installed.
    """
    points = {point.name: point for point in _points(BUILTIN_GROUP)}
    judges = [name for name in names if name.startswith(f"{JUDGE}-")]
    found = {name: _loaded(point) for name, point in points.items() if name in names}
    return found | {name: partial(_loaded(points[JUDGE]), name=name.removeprefix(f"{JUDGE}-")) for name in judges}


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ModuleNotFoundError:
        if point.name == OTEL and not is_installed(OTLP_EXPORTER):
            raise _no_exporter() from None
        raise


def _no_exporter() -> UsageError:
    return UsageError(f"{OTEL} needs the package {OTLP_EXPORTER}: {to_install(OTEL)}, or unset otel.endpoint")


def _points(*groups: str) -> list[EntryPoint]:
    """What the installed packages declare in these groups."""
    return _declared(groups)[0]


def _declared(groups: Sequence[str]) -> tuple[list[EntryPoint], list[BrokenPlugin]]:
    """(what the installed packages declare in these groups, the packages of which that cannot be read)."""
    with contextlib.suppress(Exception):  # a malformed file of one package, which is not told
        every = entry_points()
        return [point for group in groups for point in every.select(group=group)], []
    found: dict[str, list[EntryPoint]] = {}
    broken = []
    for package in distributions():
        if (name := str(package.metadata["Name"])) in found:
            continue
        found[name] = []
        try:
            found[name] = list(package.entry_points)
        except Exception:
            why = "its entry_points.txt cannot be read: it needs lines of NAME = MODULE:FUNCTION; install it anew"
            broken.append(BrokenPlugin(f"package {name}", why))
    points = [point for own in found.values() for point in own]
    return [point for group in groups for point in points if point.group == group], broken


def reserved(settings: Settings) -> frozenset[str]:
    """Names that no plug-in can bear: services and components that come with Conch, judges, and what others score."""
    rewards = settings.rewards
    return frozenset({*builtin_names(settings), *BUILTIN_COMPONENTS, *rewards.judges, *rewards.parts})


def discover(files: Sequence[str], taken: Iterable[str] = ()) -> Discovery:
    """Every plug-in of `files` and of the installed packages.

    Raises UsageError for a file that is not there. One that cannot be loaded, declares nothing, or bears a name in
    `taken` or a name that came before it, is among the broken ones.
    """
    return together(looked_at(files), taken)


def looked_at(files: Sequence[str]) -> dict[str, Discovery]:
    """What each file and each entry point brings, by origin; all are looked at side by side.

    A file's origin is its path as it was given, so that a link which is set anew is followed anew. One file is one
    origin, by whatever names it is given. Raises UsageError for a file that is not there.
    """
    for file in files:
        if not Path(file).is_file():
            raise UsageError(f"there is no file {file} (--rules)")
    as_given = {Path(file).resolve(): str(Path(file).absolute()) for file in reversed(files)}
    origins = [as_given[place] for place in dict.fromkeys(Path(file).resolve() for file in files)]
    points, broken = _declared(PLUGIN_GROUPS)
    origins += [f"{point.group}:{point.name}" for point in points]
    with ThreadPoolExecutor(LOOKERS) as lookers:
        looked = dict(zip(origins, lookers.map(look, origins), strict=True))
    return looked | {one.origin: Discovery(broken=(one,)) for one in broken}


def together(looked: Mapping[str, Discovery], taken: Iterable[str] = ()) -> Discovery:
    """All of it, less the plug-ins whose name is in `taken` or was there before: those are among the broken ones.

    A rule takes the name of its consumer too.
    """
    plugins: list[DiscoveredPlugin] = []
    broken: list[BrokenPlugin] = []
    names = set(taken)
    for origin, found in looked.items():
        broken += found.broken
        for plugin in found.plugins:
            own = {plugin.name, plugin.consumer}
            if twice := own & names:
                broken.append(BrokenPlugin(origin, f"the name {min(twice)!r} is taken"))
            else:
                names |= own
                plugins.append(plugin)
    return Discovery(tuple(plugins), tuple(broken))


def look(origin: str) -> Discovery:
    """What one file or entry point brings, loaded in a process of its own."""
    try:
        process = subprocess.Popen(
            [*(own_namespace() or ()), *python_command("conch.consumer.plugins.discover", origin)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=DIRECTORY,
            start_new_session=True,
        )
    except OSError as error:
        return Discovery(broken=(BrokenPlugin(origin, f"there is no process to look at it in ({error.strerror})"),))
    try:
        output, _ = process.communicate(timeout=LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return Discovery(broken=(BrokenPlugin(origin, f"it was still being imported after {LOOK_SECONDS:g} s"),))
    finally:
        _end(process)
    try:
        answer = json.loads(output)
        found, why, text = [DiscoveredPlugin(**plugin) for plugin in answer["plugins"]], answer["why"], answer["text"]
    except (LookupError, ValueError, TypeError):
        status = exit_status(process.returncode)
        return Discovery(broken=(BrokenPlugin(origin, f"importing it ended its process with status {status}"),))
    return Discovery(tuple(found), (BrokenPlugin(origin, why, text),) if why else ())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started: one that lives on would hold its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def load(origin: str, text: str | None = None) -> list[RuleSpec | ConsumerSpec]:
    """What `origin` declares, in the order of the file; `text`: what the file says, where that is known already.

    Raises whatever importing it raises.
    """
    group, _, name = origin.partition(":")
    if group in PLUGIN_GROUPS:
        points = [point for point in _points(*PLUGIN_GROUPS) if (point.group, point.name) == (group, name)]
        if len(points) != 1:
            raise ContractError(f"{len(points)} installed packages declare the entry point {origin}")
        thing = points[0].load()
    else:
        thing = _module_of(Path(origin), text_of(origin) if text is None else text)
    things = vars(thing).values() if isinstance(thing, ModuleType) else [thing]
    specs = {id(spec): spec for value in things if (spec := spec_of(value)) is not None}  # an alias is no second one
    if not specs:
        raise ContractError("it declares no @rule and no @consumer")
    return list(specs.values())


def text_of(file: str) -> str:
    """What a plug-in file says. Raises OSError, and ContractError for what is no Python file."""
    if not file.endswith(".py"):
        raise ContractError("it is no Python file (its name must end in .py)")
    return importlib.util.decode_source(read_plain(Path(file), MOST_BYTES))


def _module_of(path: Path, text: str) -> ModuleType:
    """The file as a module, imported once. Never from compiled code that lies beside it: that is told from the text by
    the second of its writing."""
    name = f"conch_rules_{hashlib.sha256(f'{path}:{text}'.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - a plug-in is code
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def load_one(origin: str, name: str, text: str | None = None) -> RuleSpec | ConsumerSpec:
    """The one of that name. Raises ContractError when the file has changed and it is gone."""
    for spec in load(origin, text):
        if spec.name == name:
            return spec
    raise ContractError(f"{origin} declares no {name!r} any more")


def error_words(error: BaseException, file: str | None) -> str:
    """`AttributeError: … (brevity.py, line 12)`: the error, and the line of `file` it came from, where it came through
    one. At most 500 characters."""
    try:
        words = f"{type(error).__name__}: {error}"
    except BaseException as worse:
        words = f"{type(error).__name__}, and its words raise {type(worse).__name__}"
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    place = f" ({Path(str(file)).name[-100:]}, line {lines[-1]})" if lines else ""
    return words[: 500 - len(place)] + place


def described(spec: RuleSpec | ConsumerSpec, origin: str, text: str | None) -> DiscoveredPlugin:
    """What was declared, as a value that travels between processes. `text`: of the file that `origin` names."""
    if isinstance(spec, ConsumerSpec):
        emits = [kind.TYPE for kind in emitted(spec)]
        return DiscoveredPlugin("consumer", spec.name, origin, spec.version, emits=emits, text=text)
    low, high = spec.range
    return DiscoveredPlugin(
        "rule",
        spec.name,
        origin,
        spec.version,
        spec.weight,
        low,
        high,
        spec.timeout,
        spec.doc,
        held_out=spec.held_out,
        stateful=spec.state is not None,
        window=spec.window,
        text=text,
    )


def _main() -> None:
    """`python -m conch.consumer.plugins.discover ORIGIN`: one JSON line on stdout; the plug-in prints to stderr."""
    from conch.consumer.plugins.discover import load as loaded  # not `__main__`'s: plug-ins meet the one module

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    origin = sys.argv[1]
    answer: dict[str, Any] = {"plugins": [], "why": "", "text": None}
    try:
        text = answer["text"] = None if origin.partition(":")[0] in PLUGIN_GROUPS else text_of(origin)
        answer["plugins"] = [asdict(described(spec, origin, text)) for spec in loaded(origin, text)]
    except BaseException as error:
        answer["why"] = error_words(error, origin)
    answers.write(json.dumps(answer))
    answers.flush()
    os._exit(0)  # whatever threads and exit handlers it brought


if __name__ == "__main__":
    _main()
