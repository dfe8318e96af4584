"""The dependency rule: schemas <- conch <- services, and inside conch every arrow downwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.product import parsed

ROOT = Path(__file__).parents[2]
PACKAGES = {"conch_schemas": ROOT / "schemas", "conch": ROOT, "conch_services": ROOT / "services"}
MAY_IMPORT = {
    "conch_schemas": {"conch_schemas"},
    "conch": {"conch", "conch_schemas"},
    "conch_services": {"conch_services", "conch", "conch_schemas"},
}
FLOORS = [
    {
        "actions",
        "clients",
        "config",
        "disk",
        "errors",
        "files",
        "home",
        "installed",
        "log",
        "python_child",
        "retry",
        "rules",
        "run_info",
        "secrets",
        "tasks",
        "telemetry",
        "text",
        "version",
    },
    {
        "auth",
        "bus",
        "data",
        "engine",
        "folds",
        "judge",
        "memory",
        "processes",
        "minds",
        "tools",
        "rewards",
        "needs",
        "curiosity",
        "witness",
        "experience",
        "serving",
        "snapshots",
        "teams",
        "training",
        "trusted",
        "values",
        "workspace",
    },
    {
        "consumer",
        "cycle",
        "forgetting",
        "forks",
        "metrics",
        "integrations",
        "report",
        "requests",
        "review",
        "rounds",
        "trl",
        "verifiers",
        "views",
    },
    {"__main__", "cli"},
    {"library", "testing"},
]
"""Of conch, lowest first: a folder or module imports its own floor and those below."""
PURE = ["rules", "needs", "curiosity", "teams", "witness", "values"]


def _files(package: str) -> list[Path]:
    return sorted((PACKAGES[package] / package).rglob("*.py"))


def _module(path: Path, package: str) -> str:
    parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(source: str) -> Iterator[str]:
    """Every module that a source names in an import, wherever it stands."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_one_above_it(package: str) -> None:
    """schemas know nobody, conch knows schemas, services know both."""
    for path in _files(package):
        for name in imports(path.read_text()):
            top = name.partition(".")[0]
            assert top not in PACKAGES or top in MAY_IMPORT[package], f"{path}: {name}"
            assert top not in ("schemas", "services"), f"{path}: {name} makes a second copy of every class"


def test_no_service_imports_another() -> None:
    """Each deployable consumer stands alone in its folder."""
    for path in _files("conch_services"):
        own = ".".join(_module(path, "conch_services").split(".")[:2])
        for name in imports(path.read_text()):
            if name.startswith("conch_services"):
                assert name == own or name.startswith(own + "."), f"{path}: {name}"


def test_inside_conch_every_arrow_points_downwards() -> None:
    """A newcomer can read the floors aloud: nothing below imports something above."""
    floor = {name: level for level, names in enumerate(FLOORS) for name in names}
    for path in _files("conch"):
        parts = _module(path, "conch").split(".")
        if len(parts) == 1:
            continue  # conch/__init__.py says what is public
        assert parts[1] in floor, f"{path}: which floor is conch.{parts[1]} on?"
        for name in imports(path.read_text()):
            target = name.split(".")
            if target[0] == "conch" and len(target) > 1:
                assert floor.get(target[1], 0) <= floor[parts[1]], f"{path} imports {name} from a floor above"


def test_what_is_pure_reads_no_bus_no_store_and_no_network() -> None:
    """Rules, needs, curiosity, marks and values are functions of values; they import nothing that could do more."""
    forbidden = {"asyncio.subprocess", "http", "httpx", "nats", "socket", "sqlite3", "subprocess", "urllib.request"}
    for package in PURE:
        for path in (PACKAGES["conch"] / "conch" / package).rglob("*.py"):
            for name in imports(path.read_text()):
                assert name not in forbidden, f"{path} imports {name}"
                assert name.partition(".")[0] not in forbidden, f"{path} imports {name}"
                assert not name.startswith(("conch.bus", "conch.experience")), f"{path} imports {name}"


def test_a_wrong_arrow_is_seen() -> None:
    """The reader of imports finds them in functions and under `if`, too."""
    source = "def f():\n    from conch_services.store import consumer\nif x:\n    import services.conch_services\n"

    assert set(imports(source)) == {"conch_services.store", "services.conch_services"}
