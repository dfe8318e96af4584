"""Several minds as one: a mind for each step, and fallbacks while the first one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from conch.errors import AdapterError, ModelError
from conch.log import get_logger
from conch.minds.protocol import Completion, Mind, Prompt
from conch.retry import MIND_REST, Backoff
from conch_schemas import ExperienceRecorded

log = get_logger(__name__)


class _Place:
    """One mind of a chain, and since when it fails."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.failures = 0
        self.again = 0.0
        """When it is asked again, by the chain's clock."""


class MindChain:
    """A mind and its fallbacks. Each question goes to the first of them that does not rest.

    A mind that raises ModelError rests, 15 s at first and twice as long after each further failure, 300 s at most, or
    as long as its endpoint asked for; then the next question goes to it again. Where all rest, all are asked in turn.
    `kind` and `model` are those of the mind that replied last.
    """

    def __init__(
        self,
        minds: Sequence[Mind],
        *,
        rest: Backoff = MIND_REST,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`clock`: seconds, monotonic. `tell` is called with a sentence when another mind replies than before."""
        self._places = [_Place(mind) for mind in minds]
        self._current = self._places[0]
        self._rest, self._clock, self._tell = rest, clock, tell
        self.minds = tuple(minds)
        self.learns = any(mind.learns for mind in minds)

    @property
    def kind(self) -> str:
        """The kind of the mind that replied last; of the first one before any reply."""
        return self._current.mind.kind

    @property
    def model(self) -> str:
        """The model of the mind that replied last; of the first one before any reply."""
        return self._current.mind.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply of the first mind that gives one. Raises ModelError where none does: `fatal` where no mind can be
        helped by retrying, `unreachable` where none can be reached; ScriptEnded as a script does. AdapterError as it
        is: the mind itself may be in order."""
        now = self._clock()
        awake = [place for place in self._places if place.again <= now] or self._places
        failed: list[ModelError] = []
        for place in awake:
            try:
                reply = await place.mind.complete(prompt)
            except AdapterError:
                raise
            except ModelError as error:
                failed.append(error)
                self._set_aside(place, error)
            else:
                place.failures, place.again = 0, 0.0
                self._answered(place, failed)
                return reply
        raise self._all(failed)

    def _set_aside(self, place: _Place, error: ModelError) -> None:
        place.failures += 1
        seconds = max(self._rest.after(place.failures), min(error.retry_after or 0.0, self._rest.seconds[-1]))
        place.again = self._clock() + seconds
        log.warning("mind.rests", mind=place.mind.kind, model=place.mind.model, seconds=seconds, error=str(error))

    def _answered(self, place: _Place, failed: Sequence[ModelError]) -> None:
        if place is self._current:
            return
        self._current = place
        who = f"{place.mind.kind} ({place.mind.model})"
        if place is self._places[0]:
            self._tell(f"{who} replies again")
        else:
            why = f"{failed[0]}; " if failed else ""
            self._tell(f"{why}{who} replies until the first mind works again")

    def _all(self, failed: Sequence[ModelError]) -> ModelError:
        first = failed[0]
        others = "; and the others: " + "; ".join(dict.fromkeys(map(str, failed[1:]))) if failed[1:] else ""
        return ModelError(
            f"{first}{others}",
            retry_after=None if others else first.retry_after,
            fatal=all(error.fatal for error in failed) and len(failed) == len(self._places),
            unreachable=all(error.unreachable for error in failed),
        )

    def learn(self, experience: ExperienceRecorded) -> None:
        """Let each mind learn that does."""
        for mind in self.minds:
            if mind.learns:
                mind.learn(experience)

    async def close(self) -> None:
        """Close all of them. A second call does nothing."""
        for mind in self.minds:
            await mind.close()


class StepMinds:
    """One mind that thinks and reflects, and another one that decides. `kind` and `model` are the deciding one's."""

    def __init__(self, thinks: Mind, decides: Mind) -> None:
        self.thinks, self.decides = thinks, decides
        self.learns = thinks.learns or decides.learns

    @property
    def kind(self) -> str:
        """The kind of the mind that decides."""
        return self.decides.kind

    @property
    def model(self) -> str:
        """The model of the mind that decides."""
        return self.decides.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply of the mind whose step it is. Raises what that mind raises."""
        return await (self.decides if prompt.purpose == "decide" else self.thinks).complete(prompt)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Let both learn. What one mind learns twice changes nothing."""
        for mind in (self.thinks, self.decides):
            if mind.learns:
                mind.learn(experience)

    async def close(self) -> None:
        """Close both. A second call does nothing."""
        await self.thinks.close()
        await self.decides.close()
