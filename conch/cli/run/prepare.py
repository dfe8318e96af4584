"""Preparation before the first cycle: make the home, find plug-ins, check the stream, publish the weight set."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from conch.bus import STORE_OWNER, Bus, StateRecord, encode_state, newest, state_key
from conch.cli.common import CommonOptions, warn
from conch.cli.run.agents import AgentIdentity
from conch.config import Settings, masked
from conch.consumer.plugins import Discovery, builtin_names, looked_at, reserved, together
from conch.errors import BusError, ConchError, ContractError, UsageError
from conch.home import Home
from conch.log import get_logger
from conch.text import instead
from conch.trusted import workspace_in

if TYPE_CHECKING:
    from conch.experience import ExperienceReader, ExperienceStore, StoreLocation

log = get_logger(__name__)


def ready(home: Home, settings: Settings, common: CommonOptions, *, several: bool) -> Settings:
    """Make the home where there is none, and the workspace. The settings as they are then.

    `several`: each agent furnishes a directory of its own in the workspace.
    """
    from conch.cli.init import make_home
    from conch.workspace import record_made

    place = workspace_in(home, settings)
    was_there = place.exists()
    is_expected = settings.workspace is None and not home.config_file.exists()
    if not home.config_file.exists() and common.config is None:
        make_home(home, Path(settings.workspace) if settings.workspace is not None else None, several=several)
        goals = common.settings().goals
        settings = settings.model_copy(update={"goals": goals})
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not was_there:
            record_made(home, place)
    except OSError as error:
        raise UsageError(
            f"the workspace {place} cannot be used ({error.strerror}): name another --workspace"
        ) from error
    if not was_there and not is_expected:
        advice = "conch init --sample tidepool, in a new home, fills one with a sample project"
        warn(f"made the workspace {place}, which was not there; it is empty: {advice}")
    return settings


def found(rules: Sequence[str], skipped: frozenset[str], settings: Settings) -> dict[str, Discovery]:
    """The declarations of each file and package. Raises UsageError where a consumer that is to be skipped is not
    known."""
    builtin = builtin_names(settings)
    looked = looked_at(rules)
    plugins = together(looked, reserved(settings), settings).plugins
    known = {*builtin, *(name for plugin in plugins for name in (plugin.name, plugin.consumer))}
    for name in sorted(skipped - known):
        raise UsageError(f"--without {name}: there is no such consumer; {instead(name, known)}")
    return looked


def refuse_judges(settings: Settings, home: Home, skipped: frozenset[str]) -> None:
    """Raises ConfigError for a judge of this run that cannot be made: its rubric, its endpoint's address, its key."""
    for name in settings.rewards.judges:
        if f"judge-{name}" not in skipped:
            from conch.judge import Judge

            Judge(name, settings, home.path)


def read_only(home: Home, settings: Settings, workspaces: Sequence[Path]) -> str | None:
    """The sentence that says that the embedded mind only reads in one of these directories; None: it may write in all
    of them."""
    from conch.workspace import is_made

    reflex = settings.mind.of_kind("reflex")
    if reflex is None or reflex.reflex.writes:
        return None
    theirs = next((one for one in workspaces if one.exists() and not is_made(home, one)), None)
    if theirs is None:
        return None
    return f"{theirs} is yours: the embedded mind only reads there (mind.reflex.writes: true lets it write)"


def unconfinable(settings: Settings) -> str | None:
    """The sentence that says that what runs programs is refused here, why, and what helps; None: it can be confined,
    or need not be."""
    from conch.tools import Sandbox

    problem = Sandbox(settings.tools).detect()
    if problem is None:
        return None
    idle = "; until then the embedded mind does without them" if settings.mind.of_kind("reflex") is not None else ""
    return f"shell, git and the checks of goals that run a command are refused: {problem}{idle}"


async def open_goals(bus: Bus, agent: str, settings: Settings) -> list[str]:
    """The statements of the agent's goals that are neither reached nor dropped, as the stream tells."""
    from conch_schemas import GoalDropped, GoalReached, GoalSet, decode, subject_filter

    found = {goal.id: goal.statement for goal in settings.goals}
    async for delivery in bus.read([subject_filter(kind, agent) for kind in (GoalSet, GoalReached, GoalDropped)]):
        with contextlib.suppress(ValueError):
            event = decode(delivery.data)
            if isinstance(event, GoalSet):
                found[event.goal.id] = event.goal.statement
            elif isinstance(event, GoalReached | GoalDropped):
                found.pop(event.goal, None)
    return list(found.values())


async def without_strangers(
    bus: Bus, identities: Sequence[AgentIdentity]
) -> tuple[list[AgentIdentity], dict[str, ConchError]]:
    """Before anything is published or read in an agent's name: the agents with a name that no other home's agent has on
    the stream, and the reasons why the others are left out."""
    from conch.cycle.state.recover import refuse_stranger
    from conch_schemas import PolicySet, subject_filter

    ours: list[AgentIdentity] = []
    failed: dict[str, ConchError] = {}
    for identity, (_, known) in zip(
        identities, await newest(bus, [subject_filter(PolicySet, one.name) for one in identities]), strict=True
    ):
        try:
            if known is not None:
                refuse_stranger(identity.name, identity.agentuid, known.agentuid)
            ours.append(identity)
        except BusError as error:
            failed[identity.name] = error
    return ours, failed


async def claim(bus: Bus, own: str, consumers: Sequence[str], url: str, store: StoreLocation | None = None) -> None:
    """Claim a stream for one home's store, for all its agents: a second store would publish each experience again.
    Homes without a store may share the stream. Raises BusError.

    `own`: the UUID of the home's agent; `url`: the address of the bus, for messages. `store`: where it is a database
    that the other home's store joins this stream into, both are workers of one store, and the claim stays as it is.
    """
    if "store" not in consumers:
        return
    owner = await bus.get(STORE_OWNER)
    if owner is None:
        await bus.put(STORE_OWNER, own.encode(), revision=0)
    elif owner.value.decode(errors="replace") != own and not await _joins(store, (await bus.state()).epoch):
        raise BusError(
            f"another home stores what happens on the stream on {masked(url)}: run this one --without store, "
            "or use another NATS account"
        )


async def _joins(store: StoreLocation | None, epoch: str) -> bool:
    """Whether workers can share this store, and the stream of this epoch is joined into it."""
    if store is None or not store.is_shared or not await asyncio.to_thread(store.exists):
        return False
    reader = await asyncio.to_thread(store.reader)
    try:
        return await asyncio.to_thread(reader.epoch) == epoch
    finally:
        reader.close()


async def reconciled(
    bus: Bus, store: StoreLocation, identities: Sequence[AgentIdentity], warn: Callable[[str], None]
) -> list[AgentIdentity]:
    """The agents, each with the least number of its next cycle; reports what the stream has lost."""
    from conch.bus import reconcile

    opened = await asyncio.to_thread(_opened, store)
    if opened is None:
        if sentence := (await reconcile(bus, 0, "")).sentence:
            warn(sentence)
        return list(identities)
    try:
        last = {identity: opened.cycles.last_cycle(identity.name) for identity in identities}
        found = await reconcile(bus, opened.position(), opened.epoch() or "")
        if found.sentence:
            warn(found.sentence)
        if found.another:
            for agent in opened.agents():
                await _regain_chain(bus, opened, agent)
        if not found.another and found.position < found.store_position:
            opened.set_position(found.position)
    finally:
        await asyncio.to_thread(opened.close)
    return [replace(identity, beyond=0 if cycle is None else cycle + 1) for identity, cycle in last.items()]


async def _regain_chain(bus: Bus, store: ExperienceReader, agent: str) -> None:
    """On a new stream, continue the agent's chain of marks behind the last mark in the store.

    A state that is ahead of the store is left as it is: the marks between are missing, and a verification reports it.
    """
    from conch.witness import CONSUMER, ChainState, regained

    key = state_key(CONSUMER, agent)
    entry, last = await bus.get(key), store.chain.last_mark(agent)
    try:
        known = StateRecord.decode(entry.value).state if entry is not None and entry.value else {}
        leads = last is None or ChainState.model_validate(known).sequence > last
    except (ContractError, ValueError, LookupError, TypeError):
        leads = True  # the witness itself reports that it cannot read it
    if leads:
        return

    def place_of(action: str) -> tuple[int, int] | None:
        cycle = store.cycles.cycle_of(action)
        act = store.cycles.act(agent, cycle) if cycle is not None else None
        return act.place if act is not None else None

    state = await asyncio.to_thread(lambda: regained(store.chain.marks(agent), place_of))
    value = encode_state(state, 0, (await bus.state()).epoch)
    await bus.put(key, value, revision=entry.revision if entry is not None else 0)


def _opened(store: StoreLocation) -> ExperienceStore | None:
    return store.worker() if store.exists() else None


async def set_weights(bus: Bus, identities: Sequence[AgentIdentity], settings: Settings, plugins: Discovery) -> None:
    """Say which parts an experience of each agent waits for, where that is news. A weight whose rule is not there is
    logged. Raises ConfigError."""
    from conch.consumer import expected_parts, report_weights, set_aside_weights

    for component, weight in set_aside_weights(settings, plugins).items():
        log.warning("rewards.weight_set_aside", component=component, weight=weight)
    agents = {identity.name: identity.agentuid for identity in identities}
    await report_weights(bus, agents, expected_parts(settings, plugins), "conch run")
