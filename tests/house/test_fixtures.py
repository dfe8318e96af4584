"""Fixtures have types: a Protocol, a tuple with names, a class; and a test names the type of each that it takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.product import parsed

TESTS = Path(__file__).parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_fixture(function: Function) -> bool:
    """Whether it is decorated with `pytest.fixture`, in any form."""
    return any(re.match(r"pytest(_asyncio)?\.fixture\b", ast.unparse(one)) for one in function.decorator_list)


def is_test(function: Function) -> bool:
    """Whether pytest or a state machine of hypothesis hands it its parameters."""
    return function.name.startswith("test_")


def drawn(function: Function) -> set[str]:
    """Parameters that `parametrize` and `given` fill: examples, no fixtures."""
    names: set[str] = set()
    for call in function.decorator_list:
        if not isinstance(call, ast.Call):
            continue
        words = ast.unparse(call.func).rpartition(".")[2]
        if words == "parametrize":
            named = ast.literal_eval(call.args[0])
            names.update(re.findall(r"\w+", named) if isinstance(named, str) else named)
        elif words == "given":
            parameters = [argument.arg for argument in function.args.args]
            names.update(keyword.arg or "" for keyword in call.keywords)
            names.update(parameters[len(parameters) - len(call.args) :] if call.args else ())
    return names


def untyped(source: str) -> Iterator[str]:
    """Each fixture without a type of its own, and each parameter of a fixture or test that takes one as Any."""
    for function in ast.walk(parsed(source)):
        if not isinstance(function, Function) or not (is_fixture(function) or is_test(function)):
            continue
        if is_fixture(function) and _is_any(function.returns):
            yield f"{function.lineno}: the fixture {function.name}"
        for argument in (*function.args.args, *function.args.kwonlyargs):
            if argument.arg not in {"self", *drawn(function)} and _is_any(argument.annotation):
                yield f"{argument.lineno}: {argument.arg} of {function.name}"


def _is_any(annotation: ast.expr | None) -> bool:
    return annotation is None or re.search(r"\bAny\b", ast.unparse(annotation)) is not None


@cache
def _files() -> tuple[Path, ...]:
    return tuple(sorted(TESTS.rglob("*.py")))


def test_every_fixture_has_a_type() -> None:
    """Neither what a fixture returns nor what a test takes is Any."""
    found = [f"{path.relative_to(TESTS)}:{what}" for path in _files() for what in untyped(path.read_text())]

    assert len(_files()) > 100
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@pytest.fixture\ndef a() -> Any: ...", ["2: the fixture a"]),
        (
            "@pytest.fixture(scope='module')\nasync def a() -> AsyncIterator[Callable[..., Any]]: ...",
            ["2: the fixture a"],
        ),
        ("@pytest.fixture\ndef a(): ...", ["2: the fixture a"]),
        ("class A:\n    def test_it(self, bus: Any) -> None: ...", ["2: bus of test_it"]),
        ("def test_it(run: Callable[..., Any], *, bus) -> None: ...", ["1: run of test_it", "1: bus of test_it"]),
        ("@pytest.fixture\ndef a(bus: Any) -> Bus: ...", ["2: bus of a"]),
        (
            "@pytest.mark.parametrize('x, y', [])\n@given(z=st.none())\ndef test_it(x: Any, y: Any, z: Any): ...",
            [],
        ),
        ("@given(st.none())\ndef test_it(bus: Bus, x: Any) -> None: ...", []),
        ("def helper(bus: Any) -> Any: ...", []),
    ],
)
def test_a_fixture_without_a_type_is_seen(source: str, found: list[str]) -> None:
    """In a class and under any decorator; an example that is drawn is no fixture."""
    assert list(untyped(source)) == found
