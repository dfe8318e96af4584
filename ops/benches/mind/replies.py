"""Replies of a served model to the tasks of the default workspace: how many are valid, and how many are right."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from conch.actions import Registry, parse
from conch.config import Settings
from conch.cycle.prompts.budget import LOCAL_TOKENS
from conch.cycle.prompts.build import PromptLimits, deciding, system_prompt
from conch.engine import RunningEngine, checked, minded, running_engine
from conch.minds import Completion, MindFactory, Prompt, Situation
from conch.tools import BUILTIN_TOOLS
from conch.values import Values
from conch.workspace import WorkspaceTemplate, default_goals
from conch_schemas import PromptMessage

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
LIMITS = PromptLimits(1024, LOCAL_TOKENS)
SYSTEM = system_prompt("echo", REGISTRY, Values(), LOCAL_TOKENS, is_brief=True)
AT_ONCE = 4
"""Questions that wait at the engine."""
EXPERIENCED = (
    'Best act so far: TOOL: filesystem(operation="read", path="notes/fish.md"), reward +0.45\n'
    'Worst act so far: TOOL: git(operation="log"), reward -0.05\n'
)
"""Rewards and lessons as they would stand before a task."""
Change = Callable[[Prompt], Prompt]


@dataclass(frozen=True)
class Replies:
    """Replies to some prompts."""

    texts: tuple[str, ...]
    seconds: float
    tokens: int

    @property
    def valid(self) -> int:
        """How many are valid actions."""
        return sum(parse(text, REGISTRY).valid for text in self.texts)

    @property
    def idle(self) -> int:
        """How many are valid and no call of a tool."""
        return sum(found.valid and found.kind != "TOOL" for text in self.texts for found in (parse(text, REGISTRY),))


def situations(count: int) -> list[Situation]:
    """Cycles of the default workspace; a person says a word in every tenth."""
    files = tuple(path for path, _, _ in WorkspaceTemplate.make().files if not path.startswith(".git"))
    plain = Situation("echo", 0, {"curiosity": 0.5}, {"curiosity": 0.25}, "curiosity", default_goals(), files=files)
    return [
        replace(plain, cycle=cycle, message=f"What is in {files[cycle % len(files)]}?" if cycle % 10 == 9 else None)
        for cycle in range(count)
    ]


TASKS = (
    (0, "stage", r'git\(operation="add", args="data/october.csv"\)'),
    (4, "begin", r'"write", path="journal.md"'),
    (8, "write", r'"write", path="SUMMARY.md"(?=.*Limpets)(?=.*Hermit crabs)(?=.*Anemones)(?=.*Barnacles)(?=.*Fish)'),
    (16, "run", r'shell\(command="python3 -m unittest"\)'),
    (1, "look at", r'"read", path="(README.md|data/\S+.csv)"'),
    (3, "search", r'"grep", path="\S+\.\w+", pattern="'),
)
"""Cycle, kind of its task, and what a right call holds."""


@asynccontextmanager
async def engine(settings: Settings) -> AsyncIterator[tuple[RunningEngine, Settings]]:
    """The model's engine with one slot, and the settings of a mind that asks it."""
    model = checked(settings.mind.model)
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as place:
        (Path(place) / "logs").mkdir()
        async with running_engine(settings, Path(place), model) as running:
            yield running, minded(settings, model, running.address)


async def ask(asking: Settings, prompts: Sequence[Prompt], seed: int = 0) -> Replies:
    """The replies to all prompts, AT_ONCE of them in flight."""
    turns, began = asyncio.Semaphore(AT_ONCE), time.perf_counter()
    async with MindFactory(asking.mind) as minds:
        mind = minds.make(seed=seed, memory=Path("unused"))

        async def one(prompt: Prompt) -> Completion:
            async with turns:
                return await mind.complete(prompt)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(prompt)) for prompt in prompts]
    replies = [task.result() for task in tasks]
    tokens = sum(reply.usage.output_tokens for reply in replies)
    return Replies(tuple(reply.text for reply in replies), time.perf_counter() - began, tokens)


def prompts(count: int) -> list[Prompt]:
    """Decisions in `count` cycles."""
    return [replace(deciding(SYSTEM, one, LIMITS), registry=REGISTRY) for one in situations(count)]


async def right(asking: Settings, seeds: int, change: Change = lambda prompt: prompt) -> tuple[int, int]:
    """(right calls, calls): each of TASKS with every seed."""
    asked = prompts(1 + max(cycle for cycle, _, _ in TASKS))
    found = 0
    for seed in range(seeds):
        replies = await ask(asking, [change(asked[cycle]) for cycle, _, _ in TASKS], seed)
        found += sum(bool(re.search(task[2], text)) for task, text in zip(TASKS, replies.texts, strict=True))
    return found, seeds * len(TASKS)


def experienced(prompt: Prompt) -> Prompt:
    """The prompt with rewards and lessons before its task."""
    *turns, last = prompt.messages
    return replace(prompt, messages=(*turns, PromptMessage(role="user", content=EXPERIENCED + last.content)))


def memory_mib(running: RunningEngine) -> float:
    """Memory of the engine's process that it shares with no other."""
    return float(psutil.Process(running.record.pid).memory_full_info().uss) / 2**20
