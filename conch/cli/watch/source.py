"""Fills the picture of `conch watch`: from the bus live, from the store for the past, and by requests to the agent."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AbstractContextManager, closing, nullcontext

from conch.bus import Access, Bus, SharedSubscription, StreamSubscription, access_to, shared_subscription
from conch.bus.jetstream import JetStreamBus
from conch.cli.common import open_store, quiet
from conch.cli.watch.picture import FLEET_ROWS, KINDS, ROWS, SMOOTH, WatchPicture
from conch.config import Settings
from conch.consumer.group import standings
from conch.consumer.operations import watched
from conch.errors import BusError, ConchError, StoreError
from conch.experience import ExperienceReader
from conch.home import Home
from conch.requests import ask, ask_all
from conch.tasks import background
from conch.text import safe_text
from conch.training import LineageState
from conch.views import life_evidence, life_verdict, read_lineage, waiting_words
from conch_schemas import ActionTaken, ContractViolationError, ExperienceRecorded, Mark, control_subject

Whole = tuple[ExperienceRecorded, list[Mark], ActionTaken | None]
"""A cycle, its marks, and its act where that is known."""

BATCH = 64
"""Events taken at a time: a key waits for no more than these."""
REST_SECONDS = 0.005
"""Seconds between two batches, for keys and drawing."""
BEHIND = 20_000
"""Events that are waited for; of more, the newest are shown."""
NEWEST = 1000
"""How many of those; also how far before the store's position reading begins, for acts that wait for scores there."""
LOOK_SECONDS = 0.5
"""Seconds between two checks whether bus and run are still there, and before they are tried again."""
JUDGE_SECONDS = 30.0
"""Seconds between two verdicts on the agents that are shown whole; of many cycles each takes 0.1 s."""
ASK_SECONDS = 2.0
"""Seconds between two requests for states, lags and alarms."""
WATCHED_AGENTS = 50
"""Agents that alarms are asked for."""


class PictureSource:
    """Fills the picture, and executes the keys' commands. It follows one bus at a time: a new run has its own."""

    def __init__(self, home: Home, settings: Settings, picture: WatchPicture) -> None:
        self._home, self._settings, self.picture = home, settings, picture
        self._bus: Bus | None = None
        self._stood: tuple[str, int] | None = None
        """(the stream, the last event of it that was seen)."""
        self._remembered: set[str] = set()
        """Agents whose whole cycles were read from the store."""
        self._judge_at = 0.0
        self._ask = asyncio.Event()

    async def follow(self) -> None:
        """Follow one bus after the other; never returns. An error of a connection is reported, and the next one
        tried."""
        quiet()
        while True:
            access = self._access()
            if access is None:
                self.picture.change(trouble="the run has ended; the next one is shown when it begins")
            else:
                try:
                    await self._follow(access)
                except (ConchError, TimeoutError, OSError) as error:
                    self.picture.change(trouble=safe_text(str(error), one_line=True) or "the bus does not answer")
            await asyncio.sleep(LOOK_SECONDS)

    def _access(self) -> Access | None:
        return access_to(self._home, self._settings)

    async def _follow(self, access: Access) -> None:
        """Follow until the bus changes or goes away. Raises BusError."""
        strict = self._settings.bus.durability == "strict"
        async with (
            JetStreamBus(access, name="conch-watch", strict=strict) as bus,
            shared_subscription(bus, KINDS) as shared_events,
            background(self._read(shared_events), name="conch.watch.read") as reading,
            background(self._ask_again(bus), name="conch.watch.ask") as asking,
        ):
            self._bus = bus
            self._ask.set()
            try:
                while self._access() == access:
                    away = bus.refusal or "the bus does not answer; it is asked again and again"
                    self.picture.change(trouble="" if bus.connected else away)
                    await asyncio.wait((reading, asking), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    for task in (reading, asking):
                        if task.done():
                            task.result()  # neither ends but by an error
            finally:
                self._bus = None

    async def _read(self, shared_events: SharedSubscription) -> None:
        after = await self._begin(shared_events)
        one = self.picture.names[0] if len(self.picture.names) == 1 else None
        while True:
            async with shared_events.subscribe(KINDS, after=after, agent=one) as subscription:
                after = await self._take(shared_events, subscription)
            await self._recall()

    async def _begin(self, shared_events: SharedSubscription) -> int:
        """The sequence to read on from: behind what was seen of this stream, unless that is long ago; else the store's
        position.

        The store is read after its position: what it learns in between arrives twice and changes nothing, and nothing
        is missed. When the store cannot be read here, the newest events are used instead.
        """
        epoch = (await shared_events.bus.state()).epoch
        if self._stood is not None and self._stood[0] == epoch and shared_events.seq - self._stood[1] <= BEHIND:
            return self._stood[1]
        place = await asyncio.to_thread(self._place, epoch)
        after = max(0, (shared_events.seq if place is None else min(place, shared_events.seq)) - NEWEST)
        self._stood = (epoch, after)
        await self._recall()
        return after

    async def _take(self, shared_events: SharedSubscription, subscription: StreamSubscription) -> int:
        """Read until too much waits; returns the sequence to go on from."""
        assert self._stood is not None
        epoch = self._stood[0]
        while True:
            for arrived in await subscription.get(BATCH):
                with contextlib.suppress(ContractViolationError):  # its consumers write the dead letters
                    self.picture.take(arrived.event, arrived.seq)
            self._stood = (epoch, subscription.given)
            if (behind := shared_events.seq - subscription.given) > BEHIND and not subscription.level:
                self.picture.change(skipped=self.picture.skipped + behind - NEWEST)
                return subscription.given + behind - NEWEST
            await asyncio.sleep(REST_SECONDS)

    # -- what is asked ----------------------------------------------------------------------------------------------

    async def _ask_again(self, bus: Bus) -> None:
        while True:
            self._ask.clear()
            try:
                await self._look(bus)
            except BusError:
                await asyncio.sleep(LOOK_SECONDS)  # the next time makes up for it
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await self._ask.wait()

    async def _look(self, bus: Bus) -> None:
        picture = self.picture
        try:
            if len(picture.names) > 1:
                answer = await ask_all(bus, picture.names, "status", {}, timeout=1.0)
            else:
                answer = await ask(bus, control_subject(picture.names[0], "status"), {}, timeout=1.0)
            for row in answer.get("agents", [answer]):
                picture.tell(str(row["agent"]), str(row["state"]), _why(row["why"], row.get("asks")))
            picture.change(states=dict(answer.get("states", {})))
        except ConchError:
            for name in picture.lives:
                picture.tell(name, "not answering", "")
        picture.change(lags=[(safe_text(one.name, one_line=True), one.lag) for one in await standings(bus)])
        states = await watched(bus, picture.names[:WATCHED_AGENTS])
        said = [f"{agent}: {one.what}" for agent, state in states.items() for one in state.active]
        picture.change(alarms=[safe_text(one, one_line=True) for one in said])
        if time.monotonic() >= self._judge_at:
            self._judge_at = time.monotonic() + JUDGE_SECONDS
            for agent in sorted(self._remembered):
                known = states.get(agent)
                habit = any(one.alarm == "falling_entropy" for one in known.active) if known is not None else None
                await self._judge(agent, habit)

    async def pause(self, agent: str) -> None:
        """Pause the agent, or resume it where it is paused; the result is reported. Never raises."""
        verb = "resume" if self.picture.lives[agent].state == "paused" else "pause"
        if (bus := self._bus) is None:
            self.picture.change(said=f"{agent} cannot be asked: {self.picture.trouble}")
            return
        try:
            await ask(bus, control_subject(agent, verb), {})
        except ConchError as error:
            self.picture.change(said=safe_text(f"{agent} cannot be asked: {error}", one_line=True))
        else:
            self.picture.tell(agent, *(("running", "") if verb == "resume" else ("paused", "by request")))
            self.picture.change(said="")
        self._ask.set()

    # -- what was before --------------------------------------------------------------------------------------------

    async def remember(self, agent: str) -> None:
        """Show the last cycles of this agent in the store. Where it cannot be read, that is reported."""
        self._remembered.add(agent)
        await self._take_stored(agent, ROWS)

    async def _recall(self) -> None:
        """What the store has by now: the cycles of those that are shown whole, of the others what their means need."""
        for agent in sorted(self._remembered):
            await self._take_stored(agent, ROWS)
        for agent in self.picture.names[:FLEET_ROWS]:
            if agent not in self._remembered:
                await self._take_stored(agent, SMOOTH)

    async def _take_stored(self, agent: str, most: int) -> None:
        try:
            for experience in await asyncio.to_thread(self._stored, agent, most):
                self.picture.take(experience)
            self.picture.remember_lineage(agent, await asyncio.to_thread(self._lineage, agent))
        except ConchError as error:
            self.picture.change(said=safe_text(str(error), one_line=True))

    async def _judge(self, agent: str, habit: bool | None) -> None:
        """Show what the page Story would say of this agent."""
        with contextlib.suppress(ConchError):  # that the store cannot be read is said where its cycles are
            self.picture.judge(agent, await asyncio.to_thread(self._verdict, agent, habit))

    def _verdict(self, agent: str, habit: bool | None) -> str:
        with self._store() as store:
            return "" if store is None else life_verdict(life_evidence(store, agent), habit=habit).headline

    def _store(self) -> AbstractContextManager[ExperienceReader | None]:
        """The store for reading; None: there is no cycle yet, or the store is on another machine."""
        try:
            return closing(open_store(self._home, self._settings))
        except StoreError:
            return nullcontext()

    def _place(self, epoch: str) -> int | None:
        """How far the store is in this stream; None: it cannot be known."""
        with contextlib.suppress(ConchError), self._store() as store:
            if store is not None:
                return store.position() if store.epoch() == epoch else 0
        return None

    def _stored(self, agent: str, most: int) -> list[ExperienceRecorded]:
        with self._store() as store:
            return [] if store is None else list(store.cycles.last(agent, most))

    def _lineage(self, agent: str) -> LineageState:
        with self._store() as store:
            return LineageState() if store is None else read_lineage(store, agent)

    async def cycle(self, agent: str, number: int) -> Whole | None:
        """A cycle whole, from the store, else from the stream; None: it is not recorded yet, or not any more.

        Raises ConchError where neither can be read.
        """
        if (found := await asyncio.to_thread(self._whole, agent, number)) is not None:
            return found
        row = self.picture.lives[agent].rows.get(number)
        if row is None or not row.seq or self._bus is None or (delivery := await self._bus.at(row.seq)) is None:
            return None
        from conch.bus import decoded

        event = decoded(delivery.subject, delivery.data)
        return (event, [], None) if isinstance(event, ExperienceRecorded) else None

    def _whole(self, agent: str, number: int) -> Whole | None:
        with self._store() as store:
            if store is None or (experience := store.cycles.get(agent, number)) is None:
                return None
            marks = list(store.chain.marks_of(agent, str(experience.action_id)))
            return experience, marks, store.cycles.act(agent, number)


def _why(why: object, asks: object) -> str:
    """Why an agent is in its state; where a question to its mind is open for long, what it waits for."""
    if not isinstance(asks, dict):
        return str(why)
    return waiting_words(str(asks["phase"]), float(asks["seconds"]), int(asks["tokens"]))
