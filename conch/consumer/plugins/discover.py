"""Discovery of plug-in rules and consumers: from entry points of packages and from files named in the configuration.

Plug-ins are imported in a process of their own. One that hangs, exits or raises on import is reported and set aside,
and the others run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Annotated, TypeVar

from pydantic import PlainSerializer, PlainValidator

from conch.config import Settings
from conch.consumer.declare import Declared, setting, spec_of
from conch.consumer.emitted import emitted
from conch.consumer.services import Service, ServiceContext, ServiceDeclaration
from conch.consumer.spec import ConsumerDeclaration, ConsumerSpec
from conch.errors import ContractError, UsageError
from conch.installed import TrialError, answer_of_trial, entry_points_of, error_words, tried
from conch.processes import exit_status, module_of, own_namespace, text_of
from conch.python_child import python_command
from conch.rules import DeclaredRule, RuleInfo
from conch_schemas import JsonObject

BUILTIN_GROUP = "conch.builtin"
"""Entry points of the consumers and services that come with Conch: a decorated function or class."""
PLUGIN_GROUPS = ("conch.rules", "conch.consumers")
"""Entry points of plug-ins: a decorated function, or a module of them."""
LOOK_SECONDS = 20.0
LOOKERS = 4
"""Plug-ins that are loaded side by side: one that hangs delays no other."""


@dataclass(frozen=True)
class ConsumerInfo:
    """What discovery knows of a plug-in consumer without its code."""

    name: str
    """Under which name it reads the stream."""
    version: str = "1"
    emits: Sequence[str] = ()
    """The events that it publishes, `reward.assigned`; empty: not known."""
    origin: str = ""
    """A file's path, or `group:entry point`."""
    text: str | None = None
    """Of a file: its text at discovery, which is what runs. None: the file is read when it is loaded."""
    serves: Sequence[str] = field(default_factory=list)
    """For a service: the subjects on which it answers."""
    is_service: bool = False
    """Whether it is declared with `@service`, so that its agents are not shared among workers."""
    keeps_position: bool = True
    """For a service: whether one copy of it may run at a time."""
    enabled_by: Sequence[str] = field(default_factory=list)
    """Keys of conch.yaml; it runs where one of them is set. None: it runs always."""
    instances: str | None = None
    """The key of conch.yaml that names its instances."""
    instance: str = ""
    """The instance's key, for one of several instances."""

    @property
    def consumer(self) -> str:
        """Under which name it reads the stream."""
        return self.name

    @property
    def declared(self) -> str:
        """The name in its declaration."""
        return self.name.removesuffix(f"-{self.instance}") if self.instance else self.name


Plugin = RuleInfo | ConsumerInfo
"""A plug-in that was found."""

P = TypeVar("P", RuleInfo, ConsumerInfo)


def row_of(plugin: Plugin) -> JsonObject:
    """The plug-in as JSON values, for another process or a file; `plugin_of` reads it."""
    return {"kind": "rule" if isinstance(plugin, RuleInfo) else "consumer", **asdict(plugin)}


def plugin_of(row: JsonObject) -> Plugin:
    """The plug-in in a row. Keys of other versions are ignored. Raises LookupError or TypeError for any other row."""
    return _of(RuleInfo, row) if row["kind"] == "rule" else _of(ConsumerInfo, row)


def rules_of(rows: Iterable[JsonObject]) -> tuple[RuleInfo, ...]:
    """The rules in these rows, which hold nothing else; as `plugin_of`."""
    return tuple(_of(RuleInfo, row) for row in rows)


def _of(kind: type[P], row: JsonObject) -> P:
    return kind(**{one.name: row[one.name] for one in fields(kind) if one.name in row})


PluginRow = Annotated[
    Plugin,
    PlainValidator(lambda row: plugin_of(row) if isinstance(row, Mapping) else row),
    PlainSerializer(row_of),
]
"""A plug-in in a message between processes."""


@dataclass(frozen=True)
class BrokenPlugin:
    """A plug-in that was set aside, and why."""

    origin: str
    why: str
    text: str | None = None
    """Of a file: its text, where that could be read."""


@dataclass(frozen=True)
class Discovery:
    """The result of a discovery: the plug-ins found, and those set aside."""

    plugins: tuple[Plugin, ...] = ()
    broken: tuple[BrokenPlugin, ...] = ()

    @property
    def rules(self) -> tuple[RuleInfo, ...]:
        """The rules among the plug-ins."""
        return tuple(plugin for plugin in self.plugins if isinstance(plugin, RuleInfo))

    @property
    def consumers(self) -> tuple[ConsumerInfo, ...]:
        """The consumers among the plug-ins."""
        return tuple(plugin for plugin in self.plugins if isinstance(plugin, ConsumerInfo))


def load_group(group: str) -> list[tuple[str, Declared]]:
    """(origin, declaration) of all that the installed packages declare in this group of entry points.

    Exceptions of the import are not caught.
    """
    return [(f"{group}:{point.name}", one) for point in _points(group) for one in _declarations(point.load())]


def _points(*groups: str) -> list[EntryPoint]:
    """The entry points of the installed packages in these groups."""
    return entry_points_of(groups)[0]


def discover(files: Sequence[str], taken: Iterable[str] = (), settings: Settings | None = None) -> Discovery:
    """Every plug-in of `files` and of the installed packages; with `settings` those that they enable, and a plug-in
    with instances once for each.

    Raises UsageError for a file that is not there. One that cannot be loaded, declares nothing, or bears a name in
    `taken` or a name that came before it, is among the broken ones.
    """
    return together(looked_at(files), taken, settings)


def looked_at(files: Sequence[str]) -> dict[str, Discovery]:
    """The declarations of each file and each entry point, by origin; all are loaded side by side.

    A file's origin is its path as it was given, so that a symlink that is set anew is followed anew. One file is one
    origin, even when it is given under several names. Raises UsageError for a file that is not there.
    """
    for file in files:
        if not Path(file).is_file():
            raise UsageError(f"there is no file {file} (--rules)")
    as_given = {Path(file).resolve(): str(Path(file).absolute()) for file in reversed(files)}
    origins = [as_given[place] for place in dict.fromkeys(Path(file).resolve() for file in files)]
    points, broken = entry_points_of(PLUGIN_GROUPS)
    origins += [f"{point.group}:{point.name}" for point in points]
    with ThreadPoolExecutor(LOOKERS) as lookers:
        looked = dict(zip(origins, lookers.map(look, origins), strict=True))
    return looked | {one.origin: Discovery(broken=(BrokenPlugin(one.origin, one.why),)) for one in broken}


def together(looked: Mapping[str, Discovery], taken: Iterable[str] = (), settings: Settings | None = None) -> Discovery:
    """All of it, without plug-ins that have a name in `taken` or of an earlier one: those are among the broken ones.
    With `settings` those that they enable, and a plug-in with instances once for each.

    A rule takes the name of its consumer too.
    """
    plugins: list[Plugin] = []
    broken: list[BrokenPlugin] = []
    names = set(taken)
    for origin, found in looked.items():
        broken += found.broken
        for plugin in found.plugins if settings is None else _of_settings(found.plugins, settings):
            own = {plugin.name, plugin.consumer}
            if twice := own & names:
                broken.append(BrokenPlugin(origin, f"the name {min(twice)!r} is taken"))
            else:
                names |= own
                plugins.append(plugin)
    return Discovery(tuple(plugins), tuple(broken))


def _of_settings(plugins: Iterable[Plugin], settings: Settings) -> Iterator[Plugin]:
    for plugin in plugins:
        yield from (plugin,) if isinstance(plugin, RuleInfo) else for_settings(plugin, settings)


def for_settings(plugin: ConsumerInfo, settings: Settings) -> tuple[ConsumerInfo, ...]:
    """The consumers that run with these settings: none, the plug-in itself, or each of its instances."""
    if plugin.enabled_by and not any(setting(settings, key) for key in plugin.enabled_by):
        return ()
    return instances(plugin, settings)


def instances(plugin: ConsumerInfo, settings: Settings) -> tuple[ConsumerInfo, ...]:
    """Its instances, where it is declared with some; else itself."""
    if plugin.instances is None:
        return (plugin,)
    names = setting(settings, plugin.instances)
    return tuple(replace(plugin, name=f"{plugin.name}-{name}", instance=name) for name in names)


def look(origin: str) -> Discovery:
    """The declarations of one file or entry point, loaded in a process of its own."""

    def read(output: bytes) -> Discovery:
        answer = json.loads(output)
        found, why, text = tuple(plugin_of(row) for row in answer["plugins"]), answer["why"], answer["text"]
        return Discovery(found, (BrokenPlugin(origin, why, text),) if why else ())

    command = [*(own_namespace() or ()), *python_command("conch.consumer.plugins.discover", origin)]
    try:
        return tried(command, read, seconds=LOOK_SECONDS, status=exit_status)
    except TrialError as error:
        return Discovery(broken=(BrokenPlugin(origin, str(error)),))


def load(origin: str, text: str | None = None) -> list[Declared]:
    """The declarations of `origin`, in the order of the file; `text`: the file's text, where that is known already.

    Exceptions of the import are not caught.
    """
    group, _, name = origin.partition(":")
    if group in (*PLUGIN_GROUPS, BUILTIN_GROUP):
        points = [point for point in _points(group) if point.name == name]
        if len(points) != 1:
            raise ContractError(f"{len(points)} installed packages declare the entry point {origin}")
        thing = points[0].load()
    else:
        thing = module_of(Path(origin), text_of(origin) if text is None else text)
    return _declarations(thing)


def _declarations(thing: object) -> list[Declared]:
    """The declarations in a module, or of a function."""
    things = vars(thing).values() if isinstance(thing, ModuleType) else [thing]
    specs = {id(spec): spec for value in things if (spec := spec_of(value)) is not None}  # an alias is no second one
    if not specs:
        raise ContractError("it declares no @rule, no @consumer and no @service")
    return list(specs.values())


def load_one(origin: str, name: str, text: str | None = None) -> Declared:
    """The declaration of that name. Raises ContractError when the file has changed and no longer has it."""
    for spec in load(origin, text):
        if spec.name == name:
            return spec
    raise ContractError(f"{origin} declares no {name!r} any more")


def bound(
    declared: ConsumerDeclaration | ServiceDeclaration, instance: str, context: ServiceContext
) -> ConsumerSpec | Service:
    """The consumer or service of a declaration: that instance of it, with these settings. Raises what making it
    raises."""
    return declared.bind(replace(context, instance=instance))


def described(declared: Declared, origin: str, text: str | None) -> Plugin:
    """The description of a declaration that other processes are given."""
    if isinstance(declared, DeclaredRule):
        return replace(declared.info, origin=origin, text=text)
    return consumer_info(declared, origin, text)


def consumer_info(
    declared: ConsumerDeclaration | ServiceDeclaration, origin: str, text: str | None = None
) -> ConsumerInfo:
    """The same of a consumer or a service."""
    if isinstance(declared, ServiceDeclaration):
        return ConsumerInfo(
            declared.name,
            emits=[kind.TYPE for kind in declared.emits],
            serves=list(declared.serves),
            is_service=True,
            keeps_position=declared.keeps_position,
            enabled_by=list(declared.enabled_by),
            origin=origin,
            text=text,
        )
    return ConsumerInfo(
        declared.name,
        "" if callable(declared.version) else declared.version,
        emits=[kind.TYPE for kind in emitted(declared)],
        enabled_by=list(declared.enabled_by),
        instances=declared.instances,
        origin=origin,
        text=text,
    )


def _main() -> None:
    """`python -m conch.consumer.plugins.discover ORIGIN`: one JSON line on stdout; the plug-in prints to stderr."""
    from conch.consumer.plugins.discover import load as loaded  # not `__main__`'s: plug-ins meet the one module

    origin = sys.argv[1]

    def answer() -> str:
        told: JsonObject = {"plugins": [], "why": "", "text": None}
        try:
            text = told["text"] = None if origin.partition(":")[0] in PLUGIN_GROUPS else text_of(origin)
            told["plugins"] = [row_of(described(one, origin, text)) for one in loaded(origin, text)]
        except BaseException as error:
            told["why"] = error_words(error, origin)
        return json.dumps(told)

    answer_of_trial(answer)


if __name__ == "__main__":
    _main()
