"""Values without a shape: `JsonObject` at the edges where JSON is read and written, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.house.product import Module, imported, modules, parsed

OWNER = "conch_schemas.json_object"
NAME = "JsonObject"
DICTS = {"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"}
CODECS = {"json", "yaml", "msgspec", "httpx2", "fastapi", "starlette"}
"""A module that reads or writes JSON, YAML or HTTP bodies imports one of them."""
EDGES = {
    "conch_schemas": "events on the wire, and the JSON Schemas of them",
    "conch.bus": "what a nats-server answers and describes",
    "conch.views": "the documents that commands and pages write",
}
"""Packages that are such an edge as a whole. No sixth."""
MIDDLE = {
    *("conch.rules", "conch.rewards", "conch.needs", "conch.curiosity", "conch.witness", "conch.folds", "conch.values"),
    *("conch.experience", "conch.cycle.state", "conch.cycle.grounding", "conch.consumer.runtime"),
}
"""Packages whose values all have a shape."""


def _within(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def shapeless(tree: ast.AST) -> Iterator[int]:
    """Lines with a dictionary from text to Any."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
            continue
        types = [ast.unparse(part).rpartition(".")[2] for part in node.slice.elts]
        if ast.unparse(node.value).rpartition(".")[2] in DICTS and types == ["str", "Any"]:
            yield node.lineno


def kept(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(class, field) of every field that holds a JsonObject: it lives longer than one call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            own = (part for part in ast.walk(node) if isinstance(part, ast.AnnAssign))
            for part in own:
                is_field = part in node.body or isinstance(part.target, ast.Attribute)
                if is_field and NAME in ast.unparse(part.annotation):
                    yield node.name, ast.unparse(part.target)


def is_edge(module: Module) -> bool:
    """Whether the module reads or writes JSON, YAML or HTTP, or lies in a package that does as a whole."""
    found = {name.partition(".")[0] for name, _ in imported(module.tree)}
    return bool(found & CODECS) or _within(module.name, EDGES)


def name_of(node: ast.AST) -> str | None:
    """The last word of a name in the code."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _users() -> list[Module]:
    return [module for module in modules() if any(name_of(node) == NAME for node in ast.walk(module.tree))]


def test_a_dictionary_to_anything_has_one_name() -> None:
    """`dict[str, Any]` and `Mapping[str, Any]` stand in the module that names them, and in no other."""
    found = {
        module.name: lines for module in modules() if module.name != OWNER and (lines := list(shapeless(module.tree)))
    }

    assert found == {}, f"give it a shape, or where it is JSON just read or to be written, {NAME}"


def test_json_without_a_shape_stays_at_the_edge() -> None:
    """A module that uses JsonObject reads or writes JSON itself, and none of the middle does."""
    users = _users()

    assert len(users) > 10
    assert [module.name for module in users if not is_edge(module)] == []
    assert [module.name for module in users if _within(module.name, MIDDLE)] == []


def test_json_without_a_shape_is_not_kept() -> None:
    """Outside of the edge packages no class has a field of it: what outlives a call has a type of its own."""
    found = [
        f"{module.name}.{name}: {field}"
        for module in _users()
        if not _within(module.name, EDGES)
        for name, field in kept(module.tree)
    ]

    assert found == []


def test_edges_and_middle_are_packages_that_are_there() -> None:
    """A package that was renamed is renamed in the lists, of which that of edges stays short."""
    names = {module.name for module in modules()}

    assert len(EDGES) <= 5
    assert EDGES.keys() <= names
    assert names >= MIDDLE
    for edge in EDGES:
        assert any(_within(module.name, {edge}) for module in _users()), edge


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def f(a: dict[str, Any]) -> None: ...", [1]),
        ("a: list[typing.Mapping[str, typing.Any]]", [1]),
        ("class A(dict[str, Any]): ...", [1]),
        ("if TYPE_CHECKING:\n    B = collections.abc.MutableMapping[str, Any]", [2]),
        ("a: dict[str, object]\nb: dict[int, Any]\nc: Callable[[str], Any]", []),
    ],
)
def test_a_dictionary_to_anything_is_seen(source: str, lines: list[int]) -> None:
    """In annotations, in aliases and as a base; other types are none."""
    assert list(shapeless(parsed(source))) == lines


def test_a_field_is_seen() -> None:
    """Of a class, and of `self`; a local variable is none."""
    source = """
class A:
    a: list[JsonObject]
    def f(self):
        self.b: JsonObject = {}
        c: JsonObject = {}
"""

    assert list(kept(parsed(source))) == [("A", "a"), ("A", "self.b")]
