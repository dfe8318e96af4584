"""The scripted mind reads its file to the letter and stops when it is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conch.errors import ConfigError
from conch.minds import Prompt, ScriptEnded
from conch.minds.scripted import DEFAULT_THOUGHT, ScriptedMind, read_script

Asking = Callable[..., Prompt]


def replies(path: Path, content: str | bytes) -> list[str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [line.reply for line in read_script(path)]


async def test_each_decision_takes_the_next_line_and_thinking_takes_none(tmp_path: Path, prompt: Asking) -> None:
    """Thoughts and reflections use no reply up."""
    script = tmp_path / "script"
    script.write_text("DO_NOTHING: one\nDO_NOTHING: two\n")
    mind = ScriptedMind(script)

    said = [
        (await mind.complete(prompt(purpose))).text for purpose in ("think", "decide", "reflect", "think", "decide")
    ]

    assert said[1] == "DO_NOTHING: one"
    assert said[4] == "DO_NOTHING: two"
    assert said[0] == said[3] == DEFAULT_THOUGHT


async def test_the_script_ends_on_the_think_after_the_last_reply(tmp_path: Path, prompt: Asking) -> None:
    """The last reply's own cycle is whole, reflection and all; the next one does not begin."""
    script = tmp_path / "script"
    script.write_text("DO_NOTHING: one")
    mind = ScriptedMind(script)
    await mind.complete(prompt("decide"))
    await mind.complete(prompt("reflect"))

    with pytest.raises(ScriptEnded):
        await mind.complete(prompt("think"))


async def test_a_jsonl_line_brings_its_own_thought(tmp_path: Path, prompt: Asking) -> None:
    """The thought is given to the think before its reply; without one the default stands."""
    script = tmp_path / "script.jsonl"
    script.write_text('{"thought": "a shell is a home", "reply": "REFLECT: shells"}\n{"reply": "DO_NOTHING: rest"}\n')
    mind = ScriptedMind(script)

    said = [(await mind.complete(prompt(purpose))).text for purpose in ("think", "decide", "think", "decide")]

    assert said == ["a shell is a home", "REFLECT: shells", DEFAULT_THOUGHT, "DO_NOTHING: rest"]


async def test_start_at_skips_replies(tmp_path: Path, prompt: Asking) -> None:
    """A mind can be started further down its script."""
    script = tmp_path / "script"
    script.write_text("DO_NOTHING: one\nDO_NOTHING: two\n")

    said = await ScriptedMind(script, start_at=1).complete(prompt("decide"))

    assert said.text == "DO_NOTHING: two"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("\n", [""]),
        ("a\n\nb\n", ["a", "", "b"]),
        ("a\n\n", ["a", ""]),
        ("a", ["a"]),
        (r'TOOL: x(y="a\nb")' + "\n", [r'TOOL: x(y="a\nb")']),
        ("a\u2028b\x0bc\rd\x00\n", ["a\u2028b\x0bc\rd\x00"]),
        ("\ufeffa\nb\n", ["a", "b"]),
    ],
)
def test_only_a_line_feed_ends_a_reply(tmp_path: Path, content: str, expected: list[str]) -> None:
    """Empty lines are empty replies; the last line's end is none; everything else is part of the reply."""
    assert replies(tmp_path / "script", content) == expected


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("script", b"fine\n\xff\n", "UTF-8"),
        ("script.jsonl", b'{"reply": "a"}\n{"reply"', "line 2"),
        ("script.jsonl", b'{"thought": "a"}', "line 1"),
        ("script.jsonl", b'{"thought": 1, "reply": "a"}', "thought"),
        ("script.jsonl", b"[" * 100_000, "line 1"),
        ("script.jsonl", b'{"reply": "a"}\n\n{"reply": "b"}', "line 2"),
    ],
)
def test_a_bad_script_is_refused_with_its_place(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    """What is no UTF-8 or no JSON is named by its line, before the run begins."""
    with pytest.raises(ConfigError, match=sentence):
        replies(tmp_path / name, content)


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    """A named file that is missing (or a directory) is an error of the configuration."""
    with pytest.raises(ConfigError, match="cannot be read"):
        ScriptedMind(tmp_path / name)
