"""A model's endpoint, and judges that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.config import Settings
from conch.judge import Judge
from tests.judge.standin import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A well endpoint on a free port, which gives every act 0.5."""
    with serving() as server:
        yield server


class Waits(list[float]):
    """The seconds that a judge wanted to wait between its tries; it does not."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    """What the judges of this test waited."""
    return Waits()


class MakeJudge(Protocol):
    """Makes judges."""

    def __call__(
        self, rubric: str = "Is it calm?", warn: Callable[[str], None] = lambda _: None, **settings: Any
    ) -> Judge:
        """The judge `tone` with this rubric; keywords are its settings. It is closed when the test is over."""


@pytest.fixture
async def judge(endpoint: Endpoint, waits: Waits, tmp_path: Path) -> AsyncIterator[MakeJudge]:
    """Make the judge `tone` of a home of this test's own; keywords are its settings."""
    made: list[Judge] = []

    def make(rubric: str = "Is it calm?", warn: Callable[[str], None] = lambda _: None, **settings: Any) -> Judge:
        file = tmp_path / "rubric.txt"
        file.write_text(rubric)
        own = {"rubric": str(file), "base_url": endpoint.url, "model": "stand-in", **settings}
        told = Settings.model_validate({"rewards": {"judges": {"tone": own}}})
        made.append(Judge("tone", told, tmp_path, warn=warn, sleep=waits))
        return made[-1]

    yield make
    for one in made:
        await one.close()
