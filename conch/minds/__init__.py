"""Minds: who thinks and decides. Each gives raw text that goes through the one parser."""

from __future__ import annotations

import os
from pathlib import Path

from conch.config import MindSettings
from conch.errors import ConfigError
from conch.minds.protocol import Completion, Mind, Prompt, Purpose, Recent, ScriptEnded, Sense, Situation

__all__ = ["Completion", "Mind", "Prompt", "Purpose", "Recent", "ScriptEnded", "Sense", "Situation", "make_mind"]


def make_mind(settings: MindSettings, *, seed: int, memory: Path, decided: int = 0) -> Mind:
    """The mind that the settings name. `memory` is the file in which the reflex mind keeps what it learnt;
    `decided`: so many replies of the script were used up before.

    Raises ConfigError for settings that cannot be used. Libraries are imported for the kind that needs them.
    """
    if settings.kind == "openai":
        from conch.minds.openai import OpenAIMind

        return OpenAIMind(settings, seed=seed)
    if settings.kind == "scripted":
        from conch.minds.scripted import ScriptedMind

        if settings.script is None:
            raise ConfigError("the scripted mind needs a file of replies: --script FILE or mind.script")
        return ScriptedMind(Path(settings.script).expanduser(), start_at=decided)
    # The matrices are small: threads that wait for each other would take ten times as long on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from conch.minds.reflex import ReflexMind

    return ReflexMind(memory, seed=seed, explore="random" if settings.model == "random" else "ucb")
