"""The last prompts that were sent to a mind, in files of the agent's home: exactly what the mind was asked with."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.log import get_logger
from conch.minds import Completion, Mind, MindWrapper, Prompt, PromptPart, Purpose, TokenSource
from conch_schemas import PromptMessage

log = get_logger(__name__)

KEPT = 200
"""Cycles whose prompts are kept: with the largest derived budget some 10 MiB, compressed."""
PURPOSES: tuple[Purpose, ...] = ("think", "decide", "reflect")
"""In the order of the cycle."""


class SentPrompt(BaseModel):
    """A prompt of a cycle."""

    model_config = ConfigDict(frozen=True)

    agent: str
    cycle: int
    purpose: Literal["think", "decide", "reflect"]
    system: str
    messages: tuple[PromptMessage, ...]
    parts: tuple[PromptPart, ...]
    counted: TokenSource = "estimate"

    @classmethod
    def of(cls, prompt: Prompt) -> SentPrompt:
        """The record of a prompt."""
        return cls(
            agent=prompt.situation.agent,
            cycle=prompt.situation.cycle,
            purpose=prompt.purpose,
            system=prompt.system,
            messages=prompt.messages,
            parts=prompt.parts,
            counted=prompt.counted,
        )


class RecordedMind(MindWrapper):
    """A mind whose prompts are written to `agent_dir` before it is asked. An error of the disk is logged, once."""

    def __init__(self, mind: Mind, agent_dir: Path) -> None:
        super().__init__(mind)
        self._folder, self._failed = _folder(agent_dir), False

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply. Raises what the mind raises."""
        self._write(SentPrompt.of(prompt))
        return await self.mind.complete(prompt)

    def _write(self, sent: SentPrompt) -> None:
        """Write it over the one of KEPT cycles before. A kill leaves the old or the new file."""
        file = _file(self._folder, sent.cycle, sent.purpose)
        fresh = file.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_bytes(gzip.compress(sent.model_dump_json().encode(), compresslevel=1))
            os.replace(fresh, file)
        except OSError as error:
            if not self._failed:
                log.warning("prompt.not_kept", file=str(file), error=str(error))
            self._failed = True


def sent_prompts(agent_dir: Path, cycle: int | None) -> list[SentPrompt]:
    """The kept prompts of a cycle in their order; None: of the last cycle. Unreadable files are skipped."""
    folder = _folder(agent_dir)
    if cycle is None:
        found = [sent for file in folder.glob("*.json.gz") if (sent := _read(file)) is not None]
        cycle = max((sent.cycle for sent in found), default=-1)
    there = (_read(_file(folder, cycle, purpose)) for purpose in PURPOSES)
    return [sent for sent in there if sent is not None and sent.cycle == cycle]


def _folder(agent_dir: Path) -> Path:
    return agent_dir / "prompts"


def _file(folder: Path, cycle: int, purpose: Purpose) -> Path:
    return folder / f"{cycle % KEPT:03}-{purpose}.json.gz"


def _read(file: Path) -> SentPrompt | None:
    with contextlib.suppress(OSError, EOFError, ValidationError, ValueError):
        return SentPrompt.model_validate_json(gzip.decompress(file.read_bytes()))
    return None
