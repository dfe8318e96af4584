"""The product's modules as the tests of this folder read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"conch_schemas": ROOT / "schemas", "conch": ROOT, "conch_services": ROOT / "services"}
_FOREIGN = (ROOT / "conch" / "workspace" / "files", ROOT / "conch" / "cli" / "reward" / "template")
"""Small projects of their own that the product hands out."""


@dataclass(frozen=True, eq=False)
class Module:
    """One module of the product: its dotted name, its file, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that holds the module; of a package's `__init__`, the package itself."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def parsed(text: str) -> ast.Module:
    """The syntax tree. CPython 3.11 may miscount the depth of its stack while it builds a tree, and raises then."""
    try:
        return ast.parse(text)
    except SystemError:
        return ast.parse(text)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of conch, the services and the schemas, by name."""
    found = []
    for package, base in PACKAGES.items():
        for path in sorted((base / package).rglob("*.py")):
            if any(path.is_relative_to(foreign) for foreign in _FOREIGN):
                continue
            parts = path.relative_to(base).with_suffix("").parts
            text = path.read_text()
            found.append(Module(".".join(part for part in parts if part != "__init__"), path, text, parsed(text)))
    return tuple(found)


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Every import, wherever it stands, as (module, name); the name is None for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def offered(package: Module) -> frozenset[str]:
    """The names that a package offers: what its stub imports, or without one, its `__init__`."""
    stub = package.path.with_suffix(".pyi")
    tree = parsed(stub.read_text()) if stub.exists() else package.tree
    found = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return frozenset(alias.asname or alias.name for node in found for alias in node.names)
