"""Puts planted adapters before the trainer of a run in progress, and waits for what becomes of each."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import conch
from conch.config import load
from conch.errors import ConchError
from conch.experience import store_location
from conch.home import Home
from conch.minds import Prompt
from conch.requests import ask_trainer
from conch.rounds import LineageLog, RoundPlan, held_out_cycles, prepare_round, round_folder
from conch.training import (
    CONFIG,
    WEIGHTS,
    AdapterShelf,
    BaseDigests,
    LoraShape,
    RowCounts,
    ShelvedAdapter,
    TrainingResult,
    TrainingRound,
)
from conch.training.tiny import make_tiny_model
from conch_schemas import AdapterRolledBack, TrainingStarted
from train import planted
from train.home import AGENT, TORCH, TinyHome
from train.life import Followed

PLANTED_SECONDS = 900.0
"""Longest wait for what becomes of one."""
ROWS = 48
"""Rows that a planted adapter is trained on."""
OTHER_AGENT = "99999999-9999-4999-8999-999999999999"


@dataclass
class Planter:
    """Plants adapters in the lineage of a run."""

    home: TinyHome
    bus: conch.Bus
    followed: Followed
    good: ShelvedAdapter
    """The one that acts."""

    async def plant(self, kind: str) -> tuple[str, str]:
        """(what becomes of an adapter of this kind: refused, rolled_back or acted; why)."""
        if kind in planted.SHELVED:
            return await self._asked(kind)
        round = await self._round(kind)
        if kind == "unsafe_tool_user" and round.phase == "refused":
            return await self._forced(round)
        said = round.refused or round.failed
        return ("acted", "") if said is None else ("refused", said.why)

    async def _round(self, kind: str) -> TrainingRound:
        plan = await asyncio.to_thread(self._plan)
        await asyncio.to_thread(self._left, kind, plan)
        log = LineageLog(self.bus, AGENT, plan.agentuid, self.followed.state)
        await log.publish(
            TrainingStarted, plan.round, 1, round=plan.round, attempt=1, method=plan.method, generation=plan.generation,
            base=Path(plan.base).name, snapshot=plan.snapshot, rows=plan.rows, seen=plan.seen, why=plan.why,
            settings=plan.settings,
        )  # fmt: skip

        def ended() -> bool:
            found = self.followed.state.of(plan.round)
            return found is not None and not found.is_open

        async with asyncio.timeout(PLANTED_SECONDS), self.followed.changed:
            await self.followed.changed.wait_for(ended)
        found = self.followed.state.of(plan.round)
        assert found is not None
        return found

    def _plan(self) -> RoundPlan:
        place = Home(self.home.path)
        settings = load(None, place, {})
        training = settings.training.model_copy(update={"method": "sft"})
        settings = settings.model_copy(update={"agent": AGENT, "training": training})
        with store_location(None, self.home.path).reader() as reader:
            return prepare_round(reader, settings, place, AGENT, self.followed.state, "person")

    def _left(self, kind: str, plan: RoundPlan) -> None:
        with TORCH:
            self._leave(kind, plan)

    def _leave(self, kind: str, plan: RoundPlan) -> None:
        """Write what a child of this round would have left: the adapter, and its result."""
        place, prompts = Home(self.home.path), self.home.prompts()[0]
        folder = round_folder(place, plan.round)
        out, made = folder / "adapter", None
        if kind in planted.REPLIES:
            made = planted.trained(prompts[:ROWS], planted.REPLIES[kind], self.home.base, out)
        elif kind == "wrong_base":
            other = self.home.place / "other base"
            make_tiny_model(other, prompts, list(planted.READS), seed=self.home.seed + 1000, steps=0)
            made = planted.trained(prompts[:ROWS], lambda at: planted.READS[at % 2], other, out)
        elif kind == "held_out":
            kept = [one.kept().prompt() for one in held_out_cycles(AGENT, folder / "held-out")]
            asked = [[{"role": "system", "content": one.system}, *_said(one)] for one in kept]
            made = planted.trained(asked, lambda at: planted.READS[at % 2], self.home.base, out)
        else:
            planted.edited(kind, self.good.folder, out)
        if made is not None:
            result = made.model_copy(update={"round": plan.round})
            if kind != "held_out":  # the others are of the rows that they say, as far as the trainer can know
                result = result.model_copy(update={"snapshot_digest": plan.snapshot})
        else:
            result = self._result(kind, plan, out, prompts)
        (folder / "result.json").write_bytes(result.encode())

    def _result(self, kind: str, plan: RoundPlan, out: Path, prompts: list[planted.Messages]) -> TrainingResult:
        """What a child says of an adapter whose files were edited."""
        of, honest = self.good.identity, (kind in planted.TENSORS and kind not in ("nan", "lm_head"))
        kl, probes = planted.looked_at(self.home.base, out if honest else self.good.folder, prompts[:16])
        return TrainingResult(
            round=plan.round,
            method=plan.method,
            digests=BaseDigests(base=of.base_digest, tokenizer=of.tokenizer_digest, template=of.template_digest),
            snapshot_digest=plan.snapshot,
            weights_sha256=planted.digest_of((self.good.folder if kind == "swapped_digest" else out) / WEIGHTS),
            config_sha256=planted.digest_of(out / CONFIG),
            lora=LoraShape(),
            counts=RowCounts(rows=plan.rows, new_rows=plan.rows),
            figures={"kl": kl},
            probes=probes,
            seconds=0.0,
            peak_mib=0.0,
        )

    async def _asked(self, kind: str) -> tuple[str, str]:
        """One that lies on the shelf, and that a person asks to act."""
        shelf = AdapterShelf(Home(self.home.path).adapters)
        if kind == "stale":
            other = self.good.identity.model_copy(update={"generation": 99})
            found = shelf.put(self.good.folder, other)
            planted.edited("sign_flipped", self.good.folder, self.home.place / "stale")
            shutil.copyfile(self.home.place / "stale" / WEIGHTS, found.folder / WEIGHTS)
        else:
            found = shelf.put(self.good.folder, self.good.identity.model_copy(update={"agentuid": OTHER_AGENT}))
        try:
            await ask_trainer(self.bus, "promote", AGENT, found.digest)
        except ConchError as error:
            return "refused", str(error)
        finally:
            shutil.rmtree(found.folder)
        return "acted", ""

    async def _forced(self, round: TrainingRound) -> tuple[str, str]:
        """A person promotes it all the same: its acts have it taken back."""
        adapter = round.adapter
        assert adapter is not None
        await ask_trainer(self.bus, "promote", AGENT, adapter)

        def is_back() -> bool:
            moves = self.followed.state.moves
            return bool(moves) and moves[-1].adapter == adapter and isinstance(moves[-1], AdapterRolledBack)

        async with asyncio.timeout(PLANTED_SECONDS), self.followed.changed:
            await self.followed.changed.wait_for(is_back)
        taken = self.followed.state.moves[-1]
        assert isinstance(taken, AdapterRolledBack)
        return ("rolled_back", taken.why) if self.followed.state.adapter == self.good.digest else ("acted", taken.why)


def _said(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in prompt.messages]
