"""Prepares a round: chooses the method, freezes the data and the held-out decisions, and writes the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conch.config import SERVED, Settings
from conch.errors import ConfigError, TrainingError, UsageError
from conch.experience import ExperienceReader
from conch.home import Home
from conch.rounds.judging.samples import gate_pairs
from conch.rounds.making.data import EVAL_SHARES, FrozenData, freeze_data, refuse_unusable
from conch.rounds.making.held_out import eval_share, freeze_held_out
from conch.rounds.making.method import WINDOW, MethodChoice, choose_method, format_figures
from conch.rounds.making.plan import RoundPlan, data_folder, deciding_settings, round_digest, round_folder
from conch.training import AdapterShelf, LineageState, TrainingRound
from conch_schemas import TrainingReason

HELD_OUT: Final = "held-out"
"""The directory of the held-out decisions, in the round's own."""


def prepare_round(
    reader: ExperienceReader, settings: Settings, home: Home, agent: str, state: LineageState, why: TrainingReason
) -> RoundPlan:
    """The plan of the next round of an agent's lineage, written. The same data and settings give the same round.

    Raises TrainingError, in one sentence, where nothing can be trained: no rows, all rows equal, a data set that was
    trained on before; UsageError for a base that is none; StoreError; OSError where the disk is full.
    """
    base = base_of(settings)
    share = eval_share(reader, home, agent, EVAL_SHARES, gate_pairs(settings.training.gate.states))
    choice, data, formatting = _data(reader, settings, home, agent, state, share)
    refuse_unusable(data)
    deciding = deciding_settings(settings.training)
    snapshots = [data.manifest.digest, None if formatting is None else formatting.manifest.digest]
    agentuid = home.agentuid(agent)
    round = round_digest(agentuid, choice.method, str(base), snapshots, deciding)
    if (known := state.of(round)) is not None and not _may_begin(known):
        raise TrainingError(
            f"this data set was trained on before, in the round {round[:12]} ({known.phase}): nothing new to learn from"
        )
    states = data.variety.states | (formatting.variety.states if formatting is not None else set())
    replay = _replayed(state, home, data)
    trained = states | (set(replay.states) if replay is not None else set())
    held_out = freeze_held_out(
        reader, home, agent, trained, settings.training.gate.states, round_folder(home, round) / HELD_OUT
    )
    plan = RoundPlan(
        round=round,
        agent=agent,
        agentuid=agentuid,
        generation=max([state.generation, *(one.started.generation for one in state.rounds)], default=0) + 1,
        method=choice.method,
        method_why=choice.why,
        why=why,
        first_attempt=1 if known is None else known.started.attempt + 1,
        base=str(base),
        base_digest=_base_digest(home, state),
        snapshot=data.manifest.digest,
        snapshot_name=data.place.name,
        format_snapshot_name=None if formatting is None else formatting.place.name,
        rows=data.rows,
        eval_rows=data.manifest.splits["eval"],
        seen=count_experiences(reader, agent),
        made=tuple(one.place.name for one in (data, formatting) if one is not None and one.is_new),
        states=tuple(sorted(trained)),
        held_out=held_out,
        replay=None if replay is None else replay.snapshot_name,
        settings=deciding,
    )
    plan.write(home)
    return plan


def base_of(settings: Settings) -> Path:
    """The base model that is trained: `training.base`, else the one that the mind serves from a file. Raises
    UsageError, ConfigError where there is none."""
    if settings.training.base is not None:
        base = Path(settings.training.base).expanduser()
        if not base.exists():
            raise UsageError(f"there is no model at {base}: set training.base to a directory or a GGUF file")
        return base.absolute()
    mind = settings.mind.deciding
    if mind.kind in SERVED and mind.model:
        from conch.engine import checked_model

        return checked_model(mind).absolute()
    raise ConfigError(
        f"there is no base model to train: the mind is {mind.kind}; set training.base to a directory of transformers "
        "or a GGUF file of the model that it serves"
    )


def count_experiences(reader: ExperienceReader, agent: str) -> int:
    """How many experiences of an agent the store has, those that retention removed among them."""
    last = reader.cycles.last_cycle(agent)
    return 0 if last is None else last + 1


def _data(
    reader: ExperienceReader, settings: Settings, home: Home, agent: str, state: LineageState, share: float
) -> tuple[MethodChoice, FrozenData, FrozenData | None]:
    """(the method, its data set, that of the format where the method needs a model that knows it)."""
    out = data_folder(home)
    figures = format_figures(reader.cycles.last(agent, WINDOW), state.generation)
    wanted, pairs = settings.training.method, None
    if wanted == "auto" and figures.is_learnt:
        pairs = freeze_data(reader, settings, agent, "dpo", share, out)
    choice = choose_method(wanted, figures, 0 if pairs is None or pairs.why_not is not None else pairs.rows)
    data = (
        pairs if choice.method == "dpo" and pairs else freeze_data(reader, settings, agent, choice.method, share, out)
    )
    if choice.method == "sft":
        return choice, data, None
    formatting = freeze_data(reader, settings, agent, "sft", share, out)
    return choice, data, formatting if formatting.rows else None


def _replayed(state: LineageState, home: Home, data: FrozenData) -> RoundPlan | None:
    """The plan of the newest earlier round that made an adapter by the same method, whose data set is still there."""
    for one in reversed(state.rounds):
        if one.finished is None or one.started.method != data.manifest.format:
            continue
        try:
            plan = RoundPlan.read(home, one.started.round)
        except (OSError, ConfigError, TrainingError, ValueError):
            continue
        if plan.snapshot != data.manifest.digest and (data_folder(home) / plan.snapshot_name).is_dir():
            return plan
    return None


def _may_begin(known: TrainingRound) -> bool:
    """Whether the same round may begin again: it failed for a cause that may pass."""
    return known.phase == "failed"


def _base_digest(home: Home, state: LineageState) -> str | None:
    """Of the base under the adapter that acts. Raises CheckError where that adapter is gone from the shelf."""
    if state.adapter is None:
        return None
    return AdapterShelf(home.adapters).get(state.adapter).identity.base_digest
