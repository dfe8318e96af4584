"""Carries a request to forget out: on the stream, in the store, in the bucket and in the files of a home.

No run may be in progress in the home. The plan is written before the first removal, and each step does nothing the
second time: a removal that was killed is finished by calling `finish` again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from uuid import UUID, uuid5

from conch.bus import (
    CLEARED,
    Bus,
    Checkpoint,
    MemoryRecord,
    StateRecord,
    memory_agent,
    memory_key,
    newest,
    record_erased,
    state_key,
)
from conch.config import Settings
from conch.cycle.state.memory import OWN_KINDS, AgentMemory
from conch.cycle.state.recover import RecoveryStart, recover_all, save
from conch.errors import ConchError, ContractError, FencedError, HomeError
from conch.experience import StoreLocation, remove_acts, store_location
from conch.forgetting.files import files_left, held_files, remove_from
from conch.forgetting.find import Found, find
from conch.forgetting.needle import Needle
from conch.forgetting.request import (
    ForgetReport,
    ForgetRequest,
    RemovalPlan,
    close_request,
    read_request,
    remove_unwritten,
    write_request,
)
from conch.home import Home
from conch.log import get_logger
from conch.memory import MEMORY_FILE, LongTermMemory
from conch.minds import forget_old_memory
from conch_schemas import (
    ContractViolationError,
    Mark,
    MarkWitnessed,
    PersonForgotten,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
    wire_form,
)

log = get_logger(__name__)

BusOfHome = Callable[[], AbstractAsyncContextManager[Bus]]

MARKS, IDS = 100, 2000
"""Most marks, and most ids of each kind, in one event: some 300 KiB, where an event may have 512."""


async def find_in(home: Home, settings: Settings, bus: Bus, needle: Needle, agents: Sequence[str]) -> Found:
    """What of the home holds the words. Raises BusError, StoreError, HomeError."""
    return await find(home, store_location(settings.store.url, home.path), bus, needle, set(agents))


async def finish(home: Home, settings: Settings, bus_of_home: BusOfHome) -> ForgetReport | None:
    """Carry out the request of the home, from the start or from where it was cut short; None: there is none.

    The caller owns the home; `bus_of_home` opens its bus. Raises HomeError, BusError, StoreError; the
    request stays then.
    """
    remove_unwritten(home)
    request = read_request(home)
    if request is None:
        return None
    store = store_location(settings.store.url, home.path)
    async with bus_of_home() as bus:
        if request.plan is None:
            found = await find_in(home, settings, bus, request.needle, request.agents)
            await _refuse_late_witness(bus, found)
            await _write_checkpoints(store, bus, home, found)
            plan = await _planned(home, settings, bus, request, found)
            request = request.model_copy(update={"plan": plan})
            await asyncio.to_thread(write_request, home, request)
        assert request.plan is not None
        records = [_record(text) for text in request.plan.records]
        await _publish(bus, records)
        if request.plan.values is not None:
            await bus.rewrite({key: base64.b64decode(value) for key, value in request.plan.values.items()})
        server_keeps = settings.bus.url is not None and await _put_values(bus, request.needle)
        await record_erased(bus, request.plan.seqs)  # behind the bucket's values, among which it stands
        await bus.erase(request.plan.seqs)
    if await asyncio.to_thread(store.exists):
        await asyncio.to_thread(remove_acts, store, records, request.needle.held)
    memories, files = await asyncio.to_thread(_clean_files, home, settings, request.needle, request.agents, records)
    left = await asyncio.to_thread(files_left, home, request.needle)
    report = ForgetReport(
        id=request.id,
        acts=sum(len(record.actions) for record in records),
        events=len(request.plan.seqs),
        marks=sum(len(record.marks) for record in records),
        memories=memories,
        files=files,
        left=tuple(left),
        server_keeps=server_keeps,
    )
    await asyncio.to_thread(close_request, home, report)
    log.info("person.forgotten", request=report.id, acts=report.acts, events=report.events, left=report.left)
    return report


async def _planned(home: Home, settings: Settings, bus: Bus, request: ForgetRequest, found: Found) -> RemovalPlan:
    uids = home.agents()
    parts = [record for agent in request.agents for record in _records(request, agent, uids[agent], found)]
    first = request.agents[0]
    records = parts or [_part(request, first, uids[first], 0)]  # files alone hold the words
    # Also where none holds the words: the server's files keep earlier values.
    values = await _values(bus, request.needle) if settings.bus.url is None else None
    return RemovalPlan(
        records=tuple(wire_form(record).decode() for record in records),
        seqs=tuple(event.seq for event in found.events),
        values=values,
    )


def _records(request: ForgetRequest, agent: str, agentuid: str, found: Found) -> Iterator[PersonForgotten]:
    """The events that record what is removed of an agent: as many as it takes."""
    from conch.witness import without_words

    events = [one for one in found.events if one.agent == agent]
    marks = [without_words(mark) for mark in found.marks if mark.agent == agent]
    actions = sorted({one.action for one in events if one.action in found.actions} | _of(marks, found))
    ids = sorted({one.id for one in events if one.id})
    for part in range(max(-(-len(marks) // MARKS), -(-len(actions) // IDS), -(-len(ids) // IDS))):
        yield _part(
            request,
            agent,
            agentuid,
            part,
            actions=tuple(actions[part * IDS : (part + 1) * IDS]),
            events=tuple(ids[part * IDS : (part + 1) * IDS]),
            marks=tuple(marks[part * MARKS : (part + 1) * MARKS]),
        )


def _part(request: ForgetRequest, agent: str, agentuid: str, part: int, **removed: object) -> PersonForgotten:
    return PersonForgotten.model_validate(
        {
            "id": str(uuid5(UUID(agentuid), f"{PersonForgotten.TYPE}/{request.id}/{part}")),
            "source": source_of(agent, agentuid),
            "agent": agent,
            "request": request.id,
            "part": part,
            **removed,
        }
    )


def _of(marks: Sequence[Mark], found: Found) -> set[str]:
    return {mark.action_id for mark in marks if mark.action_id is not None and mark.action_id in found.actions}


def _record(text: str) -> PersonForgotten:
    event = decode(text.encode())
    if not isinstance(event, PersonForgotten):
        raise ContractViolationError(f"{event.TYPE} in a plan of removal")
    return event


async def _publish(bus: Bus, records: Sequence[PersonForgotten]) -> None:
    """Publish those that are not on the stream yet: the server forgets an id after a while."""
    there = {json.loads(delivery.data)["id"] async for delivery in bus.read([subject_filter(PersonForgotten)])}
    for record in records:
        if record.id not in there:
            await bus.publish(subject_of(record), encode(record), id=record.id)


async def _refuse_late_witness(bus: Bus, found: Found) -> None:
    """Raises HomeError where marks of an agent were published that the witness has not written down: it would make
    others in their place, as events are gone that they were made of."""
    from conch.witness import CONSUMER, ChainState

    for agent in sorted({event.agent for event in found.events if event.agent is not None}):
        [(_, newest_mark)] = await newest(bus, [subject_filter(MarkWitnessed, agent)])
        entry = await bus.get(state_key(CONSUMER, agent))
        if not isinstance(newest_mark, MarkWitnessed) or entry is None or not entry.value:
            continue
        state = ChainState.model_validate(StateRecord.decode(entry.value).state)
        if state.sequence <= newest_mark.mark.sequence:
            raise HomeError(
                f"the witness of {agent} was killed and has not finished: conch run finishes it, then ask again"
            )


async def _write_checkpoints(store: StoreLocation, bus: Bus, home: Home, found: Found) -> None:
    """Bring the memories up to date that were to be recovered from events that go: an agent that was killed goes on
    where it stood, and gives no number of a cycle twice."""
    own = {kind.TYPE for kind in OWN_KINDS}
    newest = {event.agent: event.seq for event in found.events if event.kind in own}
    epoch = (await bus.state()).epoch
    behind: dict[str, RecoveryStart] = {}
    for agent, uid in home.agents().items():
        entry = await bus.get(memory_key(agent))
        if entry is None or not entry.value or agent not in newest:
            continue  # a program's, which keeps its own memory
        at = Checkpoint.decode(entry.value)
        if at.epoch != epoch or at.seq < newest[agent]:
            behind[agent] = RecoveryStart(uid, beyond=await asyncio.to_thread(_next_cycle, store, agent))
    for agent, recovered in (await recover_all(bus, behind)).items():
        if isinstance(recovered, ConchError):
            raise recovered
        recovered.read = recovered.end
        await save(bus, agent, behind[agent].agentuid, recovered)


def _next_cycle(store: StoreLocation, agent: str) -> int:
    """The number behind the last cycle that the store has joined."""
    if not store.exists():
        return 0
    with store.reader() as reader:
        last = reader.cycles.last_cycle(agent)
    return 0 if last is None else last + 1


async def _values(bus: Bus, needle: Needle) -> dict[str, str]:
    """All values of the bucket without the words, as base64."""
    values = {}
    for key in await bus.keys():
        entry = await bus.get(key)
        if entry is not None:
            values[key] = base64.b64encode(_redacted(key, entry.value, needle)).decode()
    return values


async def _put_values(bus: Bus, needle: Needle) -> bool:
    """Put values without the words in the place of those that hold them, on a bus that others write to; whether there
    were any."""
    held = False
    for key in await bus.keys():
        while (entry := await bus.get(key)) is not None and needle.held(entry.value):
            held = True
            try:
                await bus.put(key, _redacted(key, entry.value, needle), revision=entry.revision)
            except FencedError:
                continue  # another process wrote it meanwhile
            break
    return held


def _redacted(key: str, value: bytes, needle: Needle) -> bytes:
    if not needle.held(value):
        return value
    try:
        plain = json.loads(value)
    except ValueError:
        return CLEARED
    if memory_agent(key) is not None:
        shorter = json.dumps(needle.without(plain, drops=True)).encode()
        with contextlib.suppress(ContractError):
            MemoryRecord[AgentMemory].decode(shorter)
            return shorter
    return json.dumps(needle.without(plain)).encode()


def _clean_files(
    home: Home, settings: Settings, needle: Needle, agents: Sequence[str], records: Sequence[PersonForgotten]
) -> tuple[int, int]:
    """(rows that were removed from databases, files of text that were changed)."""
    events = [event for record in records for event in record.events]
    rows = 0
    for agent in agents:
        memory = LongTermMemory(home.agent_dir(agent) / MEMORY_FILE)
        try:
            rows += memory.forget(memory.of_events(events))
        finally:
            memory.close()
        rows += forget_old_memory(home.reflex_file(agent))
    files = 0
    for held in held_files(home, store_location(settings.store.url, home.path), needle):
        remove_from(home, held, needle)
        rows += held.number if held.is_database else 0
        files += not held.is_database
    return rows, files
