"""One owner for each name that is stored or sent: nobody else spells it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.product import parsed

ROOT = Path(__file__).parents[2]
SOURCES = ("conch", "services", "schemas", "ops", "docs")


class Thing:
    """A kind of name: how its spelling is recognised, and the modules that may spell it."""

    def __init__(self, spelling: str, *owners: str) -> None:
        self.spelling, self.owners = re.compile(spelling), owners


THINGS = {
    "key of the bucket": Thing(r"^(position|state|before|agent|worker|run|letter)/", "conch/bus/checkpoints.py"),
    "subject of a key": Thing(r"\$KV\.", "conch/bus/jetstream/names.py"),
    "name of the stream or of the bucket": Thing(
        r"\bKV_conch\b|(^|\.)CONCH$|^conch-(epoch|words|holder)$", "conch/bus/jetstream/names.py"
    ),
    "subject of an event": Thing(
        r"^conch\.v1\.\{\}\.", "schemas/conch_schemas/subjects.py", "schemas/conch_schemas/generate.py"
    ),
}
EXCEPTIONS = {
    "conch/judge/relative.py": "the parts of a prompt that a judge is shown are named state/<role>",
    "ops/benches/faults/loaded.py": "a proxy looks for the bytes of the stream's name and of a key on the wire",
}


def literals(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string that the code uses, without docstrings; a value in an f-string reads `{}`."""
    tree = parsed(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in prose or id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
        elif isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)


def spelled(source: str) -> list[tuple[str, int, str]]:
    """(what it is, line, text) of every name of THINGS that a source spells itself."""
    return [
        (what, line, text)
        for line, text in literals(source)
        for what, thing in THINGS.items()
        if thing.spelling.search(text)
    ]


def _files() -> list[Path]:
    return [path for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))]


def test_only_its_owner_spells_a_name_of_the_bus() -> None:
    """Keys of the bucket, the names of stream and bucket, and subjects: all other code asks the owner."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r} is a {what}, which {' and '.join(THINGS[what].owners)} spell"
        for path in _files()
        if str(path.relative_to(ROOT)) not in EXCEPTIONS
        for what, line, text in spelled(path.read_text())
        if str(path.relative_to(ROOT)) not in THINGS[what].owners
    ]

    assert not found, "\n".join(found)


def test_every_exception_is_needed_and_there_are_few() -> None:
    """A file that spells nothing any more is taken from the list."""
    assert len(EXCEPTIONS) <= 5
    for file in EXCEPTIONS:
        assert spelled((ROOT / file).read_text()), file


def test_no_key_of_the_bucket_is_a_literal_where_it_is_used() -> None:
    """What is read from or written to the bucket by name is named by `conch.bus.checkpoints`."""
    for path in _files():
        for node in ast.walk(parsed(path.read_text())):
            call = node.value if isinstance(node, ast.Await) else None
            if isinstance(call, ast.Call) and call.args and re.search(r"\b_?bus\.(get|put)$", ast.unparse(call.func)):
                assert not isinstance(call.args[0], ast.Constant | ast.JoinedStr), f"{path}:{call.lineno}"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ('key = f"position/{name}"', "key of the bucket"),
        ('keys = [key for key in found if key.startswith("state/")]', "key of the bucket"),
        ('subject = "$KV.conch.worker.*"', "subject of a key"),
        ('await api("STREAM.INFO.CONCH")', "name of the stream or of the bucket"),
        ('EPOCH = "conch-epoch"', "name of the stream or of the bucket"),
        ('filters = [f"conch.v1.{agent}.>"]', "subject of an event"),
    ],
)
def test_a_second_spelling_is_seen(source: str, what: str) -> None:
    """Plain, in an f-string, or as a prefix."""
    assert [found for found, _, _ in spelled(source)] == [what]


def test_prose_and_names_of_documents_are_no_spelling() -> None:
    """A docstring may name a key, and what a command prints has a schema of its own."""
    assert spelled('"""Keys: `position/needs`."""\nemit({"schema": f"conch.v1.{what}"}, path="home/state/x")\n') == []
