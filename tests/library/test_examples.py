"""Every public name has an example, and every example runs: those of docstrings, and those of the guides."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

import conch
import conch.testing
from tests.judge.standin import Endpoint, serving

GUIDES = [Path(__file__).parents[2] / "docs" / "pages" / "guides" / name for name in ("library.md", "agents.md")]
PUBLIC: tuple[ModuleType, ...] = (conch, conch.testing)
FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples() -> Iterator[tuple[str, str]]:
    """(where it stands, its source)."""
    for module in PUBLIC:
        for name in module.__all__:
            found = FENCE.findall(inspect.getdoc(getattr(module, name)) or "")
            yield from ((f"{module.__name__}.{name}-{number}", source) for number, source in enumerate(found))
    for guide in GUIDES:
        found = FENCE.findall(guide.read_text())
        yield from ((f"{guide.name}-{number}", source) for number, source in enumerate(found))


def used(source: str) -> set[str]:
    """Public names that a source uses, as `module.name`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


EXAMPLES = dict(examples())


def adder(request: dict[str, Any]) -> dict[str, Any]:
    """Calls the tool `add`, and reports its result."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return {"content": f"It is {last['content']}."}
    call = {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}


@pytest.fixture
def chat() -> Iterator[Endpoint]:
    """An endpoint whose model uses a tool."""
    with serving() as endpoint:
        endpoint.usual = adder
        yield endpoint


@pytest.mark.parametrize("where", EXAMPLES)
async def test_each_example_runs(
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chat: Endpoint,
    capsys: pytest.CaptureFixture[str],
    lacking: Callable[[str], NoReturn],
) -> None:
    """As in a notebook, with `await` at the top, in a directory of its own; buses and servers are real. Rewards that an
    example prints have come."""
    if "langgraph" in EXAMPLES[where] and importlib.util.find_spec("langgraph") is None:
        lacking("there is no langgraph: pip install langgraph")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
    code = compile(EXAMPLES[where], where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    done = eval(code, {"__name__": "example"})

    if inspect.isawaitable(done):
        await done
    assert "None" not in capsys.readouterr().out


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: str(module.__name__))
def test_each_public_name_has_an_example(module: ModuleType) -> None:
    """A name without one is not public yet."""
    shown = set().union(*map(used, EXAMPLES.values()))

    assert [name for name in module.__all__ if f"{module.__name__}.{name}" not in shown] == []


def test_each_public_name_says_what_it_is() -> None:
    """The reference is made of these docstrings."""
    assert [name for module in PUBLIC for name in module.__all__ if not inspect.getdoc(getattr(module, name))] == []
