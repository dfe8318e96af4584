"""`conch prompt show`: what the mind was asked with, to the letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import prompt
from conch.cli.common import CommonOptions
from conch.cycle.prompts.build import PromptLimits, deciding, thinking
from conch.cycle.state.sent import KEPT, RecordedMind, SentPrompt, sent_prompts
from conch.errors import ConchError
from conch.minds import Prompt, ScriptedMind, Situation

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life

Printed = Callable[[], str]


def asked(cycle: int, thought: str = "", ask: Any = thinking) -> Prompt:
    needs = {"curiosity": 0.5}
    files = tuple(f"{'folder/' * 12}{n}.md" for n in range(60))
    found: Prompt = ask(
        "You are echo.", Situation("echo", cycle, needs, needs, "curiosity", thought=thought, files=files),
        PromptLimits(10, 1500),
    )  # fmt: skip
    return found


@pytest.fixture
def mind(tmp_path: Path) -> ScriptedMind:
    """A mind of a few replies."""
    (tmp_path / "script").write_text("DO_NOTHING: a\n" * 500)
    return ScriptedMind(tmp_path / "script")


async def test_a_sent_prompt_is_shown_to_the_letter(
    filled: Life, common: CommonOptions, printed: Printed, mind: ScriptedMind
) -> None:
    """Both of the cycle, in their order, with the sections' tokens and what was left out; then the exact texts."""
    recorded = RecordedMind(mind, common.where().agent_dir("echo"))
    sent = [asked(7), asked(7, "Tides.", deciding)]
    for one in sent:
        await recorded.complete(one)

    await prompt.show(7, common=common)
    text = printed()
    await prompt.show(7, common=replace(common, json=True))
    document = json.loads(printed())

    assert text.index("think of cycle 7, sent") < text.index("decide of cycle 7, sent")
    assert f"-- system\nYou are echo.\n-- user\n{sent[0].messages[0].content}\n" in text
    assert "of 60 left out" in text
    assert [row["messages"][0]["content"] for row in document["prompts"]] == [one.messages[0].content for one in sent]
    assert [row["tokens"] for row in document["prompts"]] == [one.tokens for one in sent]


async def test_the_prompts_of_the_last_cycles_are_kept_and_no_more(tmp_path: Path, mind: ScriptedMind) -> None:
    """The files are written over in turn; a damaged one is skipped, and a disk that refuses ends no question."""
    recorded = RecordedMind(mind, tmp_path)
    for cycle in range(KEPT + 3):
        await recorded.complete(asked(cycle))

    assert len(list((tmp_path / "prompts").iterdir())) == KEPT
    assert [sent.cycle for sent in sent_prompts(tmp_path, None)] == [KEPT + 2]
    assert sent_prompts(tmp_path, 2) == []
    assert [sent.cycle for sent in sent_prompts(tmp_path, 3)] == [3]
    (tmp_path / "prompts" / "003-think.json.gz").write_bytes(b"\x1f\x8bno")
    assert sent_prompts(tmp_path, 3) == []

    (tmp_path / "file").touch()
    reply = await RecordedMind(mind, tmp_path / "file").complete(asked(1))
    assert reply.text


async def test_without_a_kept_prompt_the_decisions_is_read_from_its_experience(
    filled: Life, common: CommonOptions, printed: Printed
) -> None:
    """Of the embedded mind, and of cycles of long ago; a cycle that is not recorded is refused in a sentence."""
    await prompt.show(1, common=replace(common, json=True))
    row = json.loads(printed())["prompts"][0]

    assert (row["cycle"], row["purpose"], row["system"], row["parts"]) == (1, "decide", None, [])
    with pytest.raises(ConchError, match="no prompt of cycle 99 of echo"):
        await prompt.show(99, common=common)


async def test_of_a_run_the_prompt_that_would_be_sent_now_is_shown(
    filled: Life, common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """The running agent builds it; it is said that it was not sent."""
    now = SentPrompt.of(asked(8))

    async def answer(subject: str, _: bytes) -> bytes:
        assert subject.endswith(".prompt")
        return json.dumps({"ok": True, "prompt": now.model_dump(mode="json")}).encode()

    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer):
        await prompt.show(common=common)

    text = printed()
    assert text.startswith(f"think of cycle 8, not sent yet, {asked(8).tokens} tokens by the estimate, 3 bytes each\n")
    assert now.messages[0].content in text
