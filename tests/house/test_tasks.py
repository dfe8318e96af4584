"""asyncio tasks have an owner: they are started by a task group or by `conch.tasks`."""

from __future__ import annotations

import ast

import pytest

from tests.house.product import ROOT, modules, parsed

OWNER = "conch/tasks/owned.py"
"""The one module that makes tasks by itself: no file needs an exception."""
STARTS = {"create_task", "ensure_future", "gather"}


def ownerless(source: str) -> list[str]:
    """Every use of asyncio's functions that start tasks; `group.create_task` is a task group's own."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute) and node.attr in STARTS:
            receiver = ast.unparse(node.value)
            if node.attr != "create_task" or receiver.rpartition(".")[2] != "group":
                found.append(f"{receiver}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "asyncio":
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name in STARTS]
    return found


def test_no_module_but_the_owner_starts_tasks_by_itself() -> None:
    """All others use a TaskGroup, or `background`, `race`, `concurrently` and `OwnedTasks` of `conch.tasks`."""
    found = {
        file: starts
        for module in modules()
        if (file := str(module.path.relative_to(ROOT))) != OWNER
        if (starts := ownerless(module.text))
    }

    assert found == {}


def test_the_owner_starts_tasks() -> None:
    """The search finds what it looks for where it is known to be."""
    assert set(ownerless((ROOT / OWNER).read_text())) == {"asyncio.create_task"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("asyncio.create_task(work())", ["asyncio.create_task"]),
        ("start = asyncio.create_task", ["asyncio.create_task"]),
        ("await asyncio.gather(*works)", ["asyncio.gather"]),
        ("asyncio.get_running_loop().create_task(work())", ["asyncio.get_running_loop().create_task"]),
        ("from asyncio import ensure_future", ["asyncio.ensure_future"]),
        ("from asyncio.tasks import gather as all_of", ["asyncio.tasks.gather"]),
        ("self.group.create_task(work())", []),
        ("tasks.start(work(), name='conch.work')", []),
    ],
)
def test_a_task_without_an_owner_is_seen(source: str, found: list[str]) -> None:
    """Called, passed on or imported; a task group's own tasks are not meant."""
    assert ownerless(source) == found


def test_errors_of_groups_are_handled_without_except_star() -> None:
    """What is raised in `except*` comes out in a group again up to Python 3.11.3: `conch.tasks.ungrouped` does not."""
    found = [
        str(module.path.relative_to(ROOT))
        for module in modules()
        if any(isinstance(node, ast.TryStar) for node in ast.walk(parsed(module.text)))
    ]

    assert found == []
