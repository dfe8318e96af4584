"""Prompts and replies as tokens, by the chat template of the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conch.training.child.failures import TrainingRefusedError
from conch.training.child.rows import Messages, TrainingRow


@dataclass(frozen=True)
class RenderedRow:
    """The tokens of a row: of its prompt, and of each reply."""

    row: TrainingRow
    prompt: tuple[int, ...]
    replies: tuple[tuple[int, ...], ...]

    @property
    def longest(self) -> int:
        """Tokens of the longer text, prompt and reply."""
        return len(self.prompt) + max(map(len, self.replies), default=0)

    @property
    def tokens(self) -> int:
        """Tokens of all texts that the model reads in a step."""
        return sum(len(self.prompt) + len(reply) for reply in self.replies) or len(self.prompt)


class Renderer:
    """Renders by a tokenizer. A text is the same as in the engines that apply the same template."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def row(self, row: TrainingRow) -> RenderedRow:
        """The tokens of a row. Raises TrainingRefusedError as `reply` and `prompt` do."""
        prompt = self.prompt(row.prompt)
        return RenderedRow(
            row, tuple(prompt), tuple(tuple(self.reply(row.prompt, prompt, text)) for text in row.replies)
        )

    def prompt(self, messages: Messages) -> list[int]:
        """The tokens up to where a reply begins. Raises TrainingRefusedError where the template refuses the roles."""
        return self._applied(messages, asks=True)

    def reply(self, messages: Messages, prompt: Sequence[int], text: str) -> list[int]:
        """The tokens of a reply, with those that end it.

        Raises TrainingRefusedError where the template renders the prompt otherwise once a reply follows: the model
        would be trained on another prompt than it is asked with.
        """
        whole = self._applied([*messages, {"role": "assistant", "content": text}], asks=False)
        if whole[: len(prompt)] != list(prompt):
            raise TrainingRefusedError(
                "the chat template of the base renders a prompt otherwise once a reply follows it: its replies cannot "
                "be trained on as they are asked for; take another base"
            )
        return whole[len(prompt) :]

    def _applied(self, messages: Messages, *, asks: bool) -> list[int]:
        from jinja2 import TemplateError

        try:
            done = self._tokenizer.apply_chat_template(messages, add_generation_prompt=asks, return_dict=True)
        except TemplateError as error:
            raise TrainingRefusedError(f"the chat template of the base refuses a row: {error}") from error
        tokens: list[int] = done["input_ids"]
        return tokens


def fitting(rows: Sequence[RenderedRow], most: int, reply_tokens: int = 0) -> list[RenderedRow]:
    """The rows that have at most this many tokens, with this many of a reply that is still to come."""
    return [row for row in rows if row.longest + reply_tokens <= most]
