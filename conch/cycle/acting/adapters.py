"""The adapter under which an agent decides: the one that its pointer names, as far as it is proven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from conch.bus import TrialRecord
from conch.cycle.acting.arms import PointedAdapter, PolicyAdapter, arms_of, named_by, shadowed
from conch.cycle.acting.pointer import PointerReader
from conch.cycle.acting.proven import AdapterProof, ProvenAdapter, ProvenAdapters
from conch.errors import AdapterError, ModelError
from conch.log import get_logger
from conch.minds import Completion, Mind, MindWrapper, Prompt

log = get_logger(__name__)


@dataclass(frozen=True)
class ActingAdapter:
    """The adapter that decides, with what the policy says of it."""

    proven: ProvenAdapter
    generation: int
    evidence: str

    @property
    def digest(self) -> str:
        """Its digest."""
        return self.proven.asked.digest

    @property
    def policy(self) -> PolicyAdapter:
        """What the policy says of it."""
        of = self.proven.identity
        covers = (of.base_digest, of.tokenizer_digest, of.template_digest)
        return PolicyAdapter(self.digest, of.base, covers, self.generation, self.evidence)


class ActingAdapters:
    """Finds the adapter of each cycle for one agent."""

    def __init__(
        self, pointer: PointerReader, proven: ProvenAdapters, tell: Callable[[AdapterProof], Awaitable[None]]
    ) -> None:
        """`tell` publishes the outcome of a proof."""
        self._pointer, self._proven, self._tell = pointer, proven, tell
        self._found: dict[str, ActingAdapter] = {}

    async def of_cycle(self, cycle: int) -> ActingAdapter | None:
        """The adapter that decides in this cycle; None: the base does. An adapter that cannot be proven is passed over,
        for the one that acted before it, then for the base.

        Raises ModelError where the engine cannot be reached.
        """
        pointer = await self._pointer.read(cycle)
        await self._proven.keep(self._pointer.agentuid, named_by(pointer))
        for pointed in arms_of(pointer, self._pointer.agentuid, cycle):
            if (found := await self._of(pointed)) is not None:
                return found
        return None

    async def candidate(self, cycle: int) -> tuple[ActingAdapter, TrialRecord] | None:
        """The candidate that decides beside this cycle's act, and its trial; None: there is none, or it is not proven.
        Raises ModelError where the engine cannot be reached."""
        trial = shadowed(self._pointer.last, cycle)
        if trial is None:
            return None
        found = await self._of(PointedAdapter(trial.adapter, trial.generation, trial.evidence))
        return None if found is None else (found, trial)

    def known(self, digest: str | None) -> ActingAdapter | None:
        """The adapter of this digest, which decided; None: the base did."""
        return None if digest is None else self._found.get(digest)

    def decided(self, digest: str) -> None:
        """Count a decision under the adapter."""
        self._proven.decided(digest)

    def doubt(self, digest: str) -> None:
        """Prove it again before it decides."""
        self._proven.doubt(digest)

    def doubt_all(self) -> None:
        """Prove every adapter again before it decides."""
        self._proven.doubt_all()

    async def failed(self, digest: str) -> None:
        """Pass over the adapter for a while, and publish that."""
        await self._tell(self._proven.failed(digest))

    async def _of(self, pointed: PointedAdapter) -> ActingAdapter | None:
        proven = await self._proven.prove(pointed.digest, self._pointer.agentuid, self._tell)
        if proven is None:
            return None
        self._found[pointed.digest] = found = ActingAdapter(proven, pointed.generation, pointed.evidence)
        return found


class AdaptedMind(MindWrapper):
    """Asks a mind for decisions under the adapter of the cycle. What really decided is in `Completion.decoding`."""

    def __init__(self, mind: Mind, adapters: ActingAdapters, *, has_fallbacks: bool) -> None:
        """`has_fallbacks`: whether other minds reply while the engine is away."""
        super().__init__(mind)
        self._adapters, self._has_fallbacks = adapters, has_fallbacks

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply. An engine that does not reply under a proven adapter has it proven once more; where that
        does not help, the next one decides. Raises what the mind raises, but for AdapterError."""
        if prompt.purpose != "decide":
            return await self.mind.complete(prompt)
        doubted: set[str] = set()
        while (acting := await self._acting(prompt.situation.cycle)) is not None:
            try:
                return await self._under(acting, prompt)
            except AdapterError as error:
                log.warning("adapter.no_reply", adapter=acting.digest[:12], error=str(error))
                if acting.digest in doubted:
                    await self._adapters.failed(acting.digest)
                else:
                    doubted.add(acting.digest)
                    self._adapters.doubt(acting.digest)
        return await self.mind.complete(prompt)

    async def _under(self, acting: ActingAdapter, prompt: Prompt) -> Completion:
        try:
            reply = await self.mind.complete(replace(prompt, adapter=acting.proven.asked))
        except ModelError as error:
            if error.unreachable:
                self._adapters.doubt_all()
            raise
        if reply.decoding is None or reply.decoding.adapter != acting.digest:
            return reply  # a fallback replied
        self._adapters.decided(acting.digest)
        return reply

    async def _acting(self, cycle: int) -> ActingAdapter | None:
        try:
            return await self._adapters.of_cycle(cycle)
        except ModelError:
            self._adapters.doubt_all()
            if not self._has_fallbacks:
                raise
            return None
