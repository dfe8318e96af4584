"""Packages have faces: what others may use of them."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.house.product import Module, imported, modules, offered, parsed

PURE = (
    "conch.rules",
    "conch.rewards",
    "conch.needs",
    "conch.curiosity",
    "conch.witness",
    "conch.folds",
    "conch.values",
)
"""What decides: it is given values and gives values."""
EFFECTS = (
    "conch.bus",
    "conch.experience",
    "conch.minds",
    "conch.tools",
    "sqlite3",
    "http",
    "httpx",
    "httpx2",
    "nats",
    "socket",
)


def _room(name: str) -> str | None:
    """The folder of conch, directly beneath it, that holds a module; None outside of conch and for its own modules."""
    packages = {module.name for module in modules() if module.path.name == "__init__.py"}
    room = ".".join(name.split(".")[:2])
    return room if room.startswith("conch.") and room in packages else None


def _past_a_face(module: Module) -> list[str]:
    names = {other.name: other for other in modules()}
    past = []
    for target, name in imported(module.tree):
        if name is None or target not in names or name in offered(names[target]):
            continue
        taken = names.get(f"{target}.{name}", names[target])
        room = _room(taken.name)
        if room and room != _room(module.name) and taken.path.name != "__init__.py" and taken.package != "conch.cli":
            past.append(f"{module.name}: {taken.name}")
    return past


def test_a_package_is_imported_by_its_face() -> None:
    """From outside a folder of conch, only what an `__init__` of it offers is imported."""
    assert [past for module in modules() for past in _past_a_face(module)] == []


@pytest.mark.parametrize(
    "face", sorted(module.name for module in modules() if module.path.with_suffix(".pyi").exists())
)
def test_a_face_offers_what_its_stub_says(face: str) -> None:
    """Every name of the stub can be imported, and nothing is in it twice."""
    module = importlib.import_module(face)
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    names = [
        alias.asname or alias.name
        for node in parsed(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]

    assert sorted(names) == sorted(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


def test_rules_and_folds_are_pure() -> None:
    """What decides imports no bus, no store, no SQLite and no HTTP."""
    impure = [
        f"{module.name}: {target}"
        for module in modules()
        if module.name.startswith(PURE)
        for target, _ in imported(module.tree)
        if any(target == effect or target.startswith(f"{effect}.") for effect in EFFECTS)
    ]

    assert impure == []
