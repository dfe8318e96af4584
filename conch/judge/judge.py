"""A running judge: asks its endpoint within its budget, caches answers, scores acts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from conch.config import Settings
from conch.errors import ConfigError, JudgeError
from conch.judge.act import trajectory_of
from conch.judge.answer import EXPLANATION, Judgement
from conch.judge.answers import JudgeCache
from conch.judge.endpoint import JudgeEndpoint
from conch.judge.rubric import read_rubric
from conch.judge.score import JudgeConfig, judge_key, judge_version, judged
from conch.rules import Message, Trajectory
from conch.text import safe_text
from conch_schemas import ActionTaken, PromptMessage, Score

RANGE = (0.0, 1.0)
"""The range of every judge's score."""


def answers_file(name: str, home: Path) -> Path:
    """The cache file of the judge `name`."""
    return home / "judges" / f"{name}.db"


class Judge:
    """The judge of one component. It opens its file and connections on first use; the caller closes it."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        home: Path,
        *,
        warn: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """The judge `name` of `rewards.judges`; `warn` is called with a sentence, in any thread: also once when its
        endpoint becomes unreachable, and when it answers again; `sleep` waits between retries.

        Raises ConfigError for an unknown name, and for a rubric, address or key that cannot be used.
        """
        if (own := settings.rewards.judges.get(name)) is None:
            raise ConfigError(f"rewards.judges has no {name}: it has {', '.join(settings.rewards.judges) or 'none'}")
        self.name, self.scorer, self.concurrency = name, f"judge-{name}", own.concurrency
        self._answers = JudgeCache(answers_file(name, home), own.cache_entries, warn=warn)
        self._endpoint = JudgeEndpoint(name, own, settings.mind, lambda: self._answers.count(own.calls_per_hour))
        rubric = read_rubric(name, own.rubric)
        self.config = JudgeConfig(rubric, self._endpoint.model, self._endpoint.ask, own.tries, sleep=sleep)
        self.version = judge_version(self.config.rubric, self.config.model)
        """Version of its scores: it changes with the rubric and the model."""
        self._warn, self._away = warn, False
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def judgement(self, trajectory: Trajectory) -> Judgement:
        """The model's judgement of this trajectory, cached or new; a new one is stored before this returns.

        The same trajectory is asked once, also concurrently. Raises JudgeError; a failure is not cached.
        """
        key = judge_key(trajectory, self.config)
        async with self._asking.setdefault(key, asyncio.Lock()):
            if (known := await self._answers.get(key)) is not None:
                return known
            found = await self._asked(trajectory)
            await self._answers.put(key, found)
            return found

    async def _asked(self, trajectory: Trajectory) -> Judgement:
        """Ask the model, and report when the endpoint becomes unreachable or answers again."""
        try:
            found = await judged(trajectory, self.config)
        except JudgeError as error:
            if error.unreachable and not self._away:
                self._away = True
                self._warn(safe_text(str(error), one_line=True))
            raise
        if self._away:
            self._away = False
            self._warn("its endpoint answers again")
        return found

    async def judge_act(self, action: ActionTaken, prompt: Sequence[PromptMessage] = ()) -> Score:
        """The score of an act, live or recorded; every failure becomes a Score with status error and the reason.

        `prompt`: the mind's prompt, if the caller has it; otherwise what `remember` stored for this act.
        """
        try:
            said = [Message(one.role, one.content) for one in prompt] or await self._remembered(action)
            found = await self.judgement(trajectory_of(action, said))
        except JudgeError as error:
            return self._score("error", why=safe_text(str(error), one_line=True)[:EXPLANATION])
        return self._score("scored", found.score, found.explanation)

    async def remember(self, prompts: Sequence[tuple[str, Sequence[PromptMessage]]]) -> None:
        """Store the mind's prompts, by action id, until their acts come, also across a restart. Raises JudgeError."""
        await self._answers.put_prompts(prompts)

    async def close(self) -> None:
        """Close file and connections. A second call does nothing; a later question opens them again."""
        await self._endpoint.close()
        await self._answers.close()

    async def _remembered(self, action: ActionTaken) -> list[Message]:
        said = await self._answers.prompt(action.action_id or "")
        return [Message(role, content) for role, content in said]

    def _score(self, status: Any, value: float | None = None, why: str = "") -> Score:
        return Score(
            component=self.name,
            value=value,
            range=RANGE,
            status=status,
            explanation=why,
            scorer=self.scorer,
            version=self.version,
        )


@asynccontextmanager
async def judging(name: str, settings: Settings, home: Path) -> AsyncIterator[Judge]:
    """The judge `name` of `rewards.judges`, closed on leaving. Raises ConfigError."""
    judge = Judge(name, settings, home)
    try:
        yield judge
    finally:
        await judge.close()
