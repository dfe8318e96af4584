"""A mind whose replies and errors hold no secret."""

from __future__ import annotations

from dataclasses import replace

from conch.config import Masker
from conch.errors import ModelError
from conch.minds.protocol import Completion, Mind, MindWrapper, Prompt


class MaskedMind(MindWrapper):
    """Masks what a mind says before it is parsed: the act that is run is the one that is recorded."""

    def __init__(self, mind: Mind, masker: Masker) -> None:
        super().__init__(mind)
        self._masker = masker

    async def complete(self, prompt: Prompt) -> Completion:
        """The masked reply. Raises what the mind raises; a ModelError's sentence is masked too."""
        try:
            reply = await self.mind.complete(prompt)
        except ModelError as error:
            error.args, error.detail = (self._masker.text(str(error)),), self._masker.text(error.detail)
            raise
        return replace(reply, text=self._masker.text(reply.text))
