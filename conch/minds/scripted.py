"""The scripted mind: replies read from a file, for tests and replay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from conch.errors import ConfigError
from conch.files import read_plain
from conch.minds.protocol import Completion, Prompt, ScriptEnded
from conch_schemas import ExperienceRecorded, Usage

MOST_BYTES = 64 * 2**20
"""Most bytes of a script: all of it is held in memory."""
DEFAULT_THOUGHT = "I follow my script."
REFLECTION = "I did what my script says."


@dataclass(frozen=True)
class ScriptLine:
    """One line of a script."""

    reply: str
    thought: str = DEFAULT_THOUGHT


def read_script(path: Path) -> tuple[ScriptLine, ...]:
    r"""The lines of a script. Raises ConfigError for a file that is missing, not UTF-8, or malformed on some line.

    A `.jsonl` file has `{"thought": …, "reply": …}` per line, the thought optional. Any other file has one raw reply
    per line, unchanged (`\n` stays two characters); an empty line is the empty reply. Only LF ends a line, because a
    reply may hold any other character; the last line's end does not begin another line.
    """
    try:
        data = read_plain(path, MOST_BYTES)
        text = data.decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the script {path} is not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"the script {path} cannot be read: {error.strerror}") from error
    if not data:
        return ()
    lines = text.split("\n")
    if path.suffix != ".jsonl":
        return tuple(ScriptLine(line) for line in lines)
    return tuple(_parsed(line, f"line {number} of the script {path}") for number, line in enumerate(lines, 1))


def _parsed(line: str, where: str) -> ScriptLine:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON") from error
    if not isinstance(found, dict) or not isinstance(found.get("reply"), str):
        raise ConfigError(f'{where} must be an object with a text "reply"')
    thought = found.get("thought", DEFAULT_THOUGHT)
    if not isinstance(thought, str):
        raise ConfigError(f'{where}: "thought" must be a text')
    return ScriptLine(found["reply"], thought)


class ScriptedMind:
    """Gives the replies of a script in order, one per *decide*; thinking and reflecting use none up.

    The position of earlier runs is not stored: every mind starts at `start_at`, counted from 0.
    """

    kind, learns = "scripted", False

    def __init__(self, path: Path, *, start_at: int = 0, lines: tuple[ScriptLine, ...] | None = None) -> None:
        """`lines`: the file's lines, where the caller has read them before."""
        self._lines = lines if lines is not None else read_script(path)
        self._next = start_at
        self._model = f"script:{path.name}"

    @property
    def model(self) -> str:
        """`script:` and the file's name."""
        return self._model

    async def complete(self, prompt: Prompt) -> Completion:
        """The next line's thought or reply. Raises ScriptEnded on *think* and *decide* after the last reply."""
        return Completion(
            text=self._text(prompt.purpose), finish_reason="stop", usage=Usage(), model=self._model, ms=0.0, cost=0.0
        )

    def _text(self, purpose: str) -> str:
        if purpose == "reflect":
            return REFLECTION
        if self._next >= len(self._lines):
            raise ScriptEnded(f"the script has no more than {len(self._lines)} replies")
        line = self._lines[self._next]
        if purpose == "think":
            return line.thought
        self._next += 1
        return line.reply

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing: a script does not learn."""

    async def close(self) -> None:
        """Does nothing: there is nothing to save."""
