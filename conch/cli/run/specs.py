"""What the children of a run are told when they start, and when they are started again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from conch.cli.run.agents import AgentIdentity, agent_processes
from conch.cli.run.describe import for_plugins
from conch.cli.run.state import RunState
from conch.config import Settings
from conch.consumer.plugins import PAGE, ConsumerInfo, PluginRow
from conch.engine import engine_start, minded
from conch.processes import messages


class ChildSpecs:
    """Makes the start message of each child from the state of the run as it is when the child starts."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    def agents(
        self, shares: Sequence[Sequence[AgentIdentity]], born: int
    ) -> list[Callable[[], Awaitable[messages.AgentsStart]]]:
        """Of each agent process, with its share of the agents. `born`: where the stream ended before those made in this
        run."""
        return [partial(self._agents, shares, number, born) for number in range(len(shares))]

    async def _agents(self, shares: Sequence[Sequence[AgentIdentity]], number: int, born: int) -> messages.AgentsStart:
        state, process = self._state, agent_processes(self._state.processes)[number]
        state.at_rest.pop(process, None)  # started again, its agents go on
        before, total = sum(map(len, shares[:number])), sum(map(len, shares))
        others = [share for place, share in enumerate(shares) if place != number]
        agents, settings, acting = state.home.agents() if number == 0 else {}, state.settings, frozenset(state.agents)
        if state.model is not None:
            await state.engine.up.wait()
            settings = minded(settings, state.model, state.engine)
        return messages.AgentsStart(
            settings=settings,
            home=state.home.path,
            access=state.access,
            process=process,
            cycles=state.cycles,
            agents=tuple(
                messages.AgentStart(
                    name=one.name,
                    agentuid=one.agentuid,
                    beyond=one.beyond,
                    born=born if one.fresh else None,
                    begun=state.begun.get(one.name),
                    place=(before + place) / total,
                )
                for place, one in enumerate(shares[number])
            ),
            resting={name: agentuid for name, agentuid in agents.items() if name not in acting},
            workspace=state.workspace,
            alone=state.alone,
            values=state.values,
            tools=state.tools.points,
            others=tuple(messages.OtherAgents(first=share[0].name, number=len(share)) for share in others),
        )

    async def engine(self) -> messages.EngineStart:
        """Of the engine, which serves the model of the mind `local`."""
        state = self._state
        assert state.model is not None
        return engine_start(state.settings, state.home.path, state.model, state.engine, len(state.agents))

    async def consumers(self) -> messages.ConsumersStart[PluginRow]:
        """Of the process of all consumers that come with Conch, and of the rules."""
        state = self._state
        since, state.since = state.since, None  # started again, they go on from the end
        return self._consumers("consumers", state.settings).model_copy(
            update={
                "builtin": tuple(name for name in state.wanted_builtin() if name != PAGE),
                "plugins": tuple(state.wanted_rules()),
                "keeps": True,
                "reloads": state.reloads,
                "since": since,
            }
        )

    async def page(self) -> messages.ConsumersStart[PluginRow]:
        """Of the dashboard. Started again, it listens where it did: an open page goes on."""
        ui = self._state.settings.ui
        if self._state.page is not None:
            ui = ui.model_copy(update={"port": urlsplit(self._state.page).port})
        settings = self._state.settings.model_copy(update={"ui": ui})
        return self._consumers("dashboard", settings).model_copy(update={"builtin": (PAGE,)})

    def plugin(self, plugin: ConsumerInfo) -> Callable[[], Awaitable[messages.ConsumersStart[PluginRow]]]:
        """Makes the start message of one plug-in consumer's process."""

        async def spec() -> messages.ConsumersStart[PluginRow]:
            start = self._consumers(plugin.name, for_plugins(self._state.settings))
            return start.model_copy(update={"plugins": (plugin,)})

        return spec

    def _consumers(self, name: str, settings: Settings) -> messages.ConsumersStart[PluginRow]:
        """The start of a process that hosts no consumer yet."""
        return messages.ConsumersStart[PluginRow](
            settings=settings,
            home=self._state.home.path,
            access=self._state.access,
            name=f"conch-{name}",
            agents=tuple(self._state.agents),
        )
