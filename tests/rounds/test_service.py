"""The service: rounds by the schedule and by request, one trainer at a time, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

from conch.bus import shared_subscription
from conch.consumer import ServiceContext
from conch.errors import BusError, ConchError
from conch.requests import ask_trainer
from conch.tasks import background
from conch_schemas import (
    AdapterTried,
    Event,
    ExperienceRecorded,
    TrainingFailed,
    TrainingProgressed,
    TrainingStarted,
    decode,
    encode,
    subject_filter,
    subject_of,
)
from conch_services.trainer.requests import REQUESTS
from conch_services.trainer.service import TrainerService
from tests.rounds.conftest import AGENT

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.rounds.conftest import Trained

E = TypeVar("E", bound=Event)


@asynccontextmanager
async def serving(trained: Trained, until: Until, how: str = "good") -> AsyncIterator[TrainerService]:
    """The service on the lineage's bus, until the context is left."""
    async with shared_subscription(trained.bus) as shared_events:
        stop = asyncio.Event()
        context = ServiceContext(trained.config, trained.home.path)
        service = TrainerService(context, trained.engine, trained.child(how), look=0.02)
        async with background(service.run(shared_events, stop), name="trainer") as running:
            await until(partial(_is_asked, trained))
            yield service
            stop.set()
            await running


async def _is_asked(trained: Trained) -> bool:
    """Whether the service answers."""
    with suppress(BusError):
        await trained.bus.request(REQUESTS.replace("*", "ask"), b"{}", timeout=1.0)
        return True
    return False


async def first(trained: Trained, kind: type[E]) -> E:
    """The first event of this kind, once it is there."""
    async with asyncio.timeout(30), trained.bus.follow([subject_filter(kind)], after=0) as reader:
        while True:
            for got in await reader.get():
                found = decode(got.data)
                assert isinstance(found, kind)
                return found


async def record(trained: Trained, number: int) -> None:
    """So many cycles more, in the store and on the stream."""
    for _ in range(number):
        cycle = await trained.act()
        found = trained.store.cycles.get(AGENT, cycle)
        assert isinstance(found, ExperienceRecorded)
        await trained.bus.publish(subject_of(found), encode(found), id=found.id)


async def test_a_round_begins_by_the_schedule_and_ends_in_a_trial(trained: Trained, until: Until) -> None:
    """After `training.every` cycles the data are frozen, the child trains, the gate judges, the canary begins."""
    trained.settings["training"] |= {"every": 60}
    async with serving(trained, until):
        await record(trained, 59)
        await record(trained, 1)

        tried = await first(trained, AdapterTried)

        assert (await first(trained, TrainingStarted)).why == "schedule"
        assert tried.stage == "canary"
        assert tried.verdict is None


async def test_a_person_begins_a_round_and_stops_it(trained: Trained, until: Until) -> None:
    """A round that was asked for trains at once; stopped, its child is ended and nothing is tried again."""
    async with serving(trained, until, "hang"):
        await record(trained, 60)
        said = await ask_trainer(trained.bus, "run", AGENT)
        started = await first(trained, TrainingStarted)
        await first(trained, TrainingProgressed)

        stopped = await ask_trainer(trained.bus, "stop", AGENT)

        failed = await first(trained, TrainingFailed)
        assert started.round[:12] in said
        assert started.round[:12] in stopped
        assert (failed.round, failed.again, started.why) == (started.round, False, "person")


async def test_a_request_that_cannot_be_done_is_refused_in_a_sentence(trained: Trained, until: Until) -> None:
    """No rows, no such agent, nothing to stop or to roll back to."""
    async with serving(trained, until):
        for verb, agent, words in (
            ("run", AGENT, "no row of sft"),
            ("run", "nobody", "no agent of"),
            ("stop", AGENT, "no round of echo is in progress"),
            ("rollback", AGENT, "nothing to roll back to"),
        ):
            with pytest.raises(ConchError, match=words):
                await ask_trainer(trained.bus, verb, agent)  # type: ignore[arg-type]
