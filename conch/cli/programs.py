"""A run without an agent: programs act on its bus by `conch.agent`, and the run takes up each that comes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from conch.bus import Bus
from conch.cli.run.agents import AgentIdentity
from conch.cli.run.output import RunOutput
from conch.cli.run.prepare import set_weights
from conch.cli.run.state import RunState
from conch.cycle.state.count import cycles_begun
from conch.errors import UsageError
from conch.home import Home
from conch.text import safe_text
from conch_schemas import PolicySet, decode, subject_filter

AGENT = "agent"
"""The name after --without that stands for the run's own agents."""


def refuse_of_agent(options: Sequence[str]) -> None:
    """Raises UsageError for options that only an agent of the run can follow."""
    if options:
        raise UsageError(
            f"--without agent and {options[0]}: that is for an agent of Conch's own; leave it out, "
            "the program itself says what it does and when it ends"
        )


def programs_of(home: Home, agent: str) -> list[str]:
    """The agents of a home that have acted, by name; where none has, `agent`, which stands for those to come."""
    return [name for name in home.agents() if cycles_begun(home.agent_dir(name)) is not None] or [agent]


class Programs:
    """Takes up the agents of programs: their cycles are printed, other commands know them, rules weigh for them."""

    def __init__(
        self,
        bus: Bus,
        state: RunState,
        identities: list[AgentIdentity],
        run_output: RunOutput,
        changed: Callable[[], None],
    ) -> None:
        """`identities`: of the run's agents, to which it adds. `changed`: writes run.json."""
        self._bus, self._state, self._identities = bus, state, identities
        self._run_output, self._changed = run_output, changed
        self._acted = set(programs_of(state.home, ""))

    async def keep_welcoming(self, after: int) -> None:
        """Take up each agent that begins behind sequence `after`; never returns."""
        async with self._bus.follow([subject_filter(PolicySet)], after=after) as reader:
            while True:
                for delivery in await reader.get():
                    with contextlib.suppress(ValueError):
                        event = decode(delivery.data)
                        await self._welcome(AgentIdentity(event.agent, event.agentuid, fresh=False))

    async def _welcome(self, one: AgentIdentity) -> None:
        agents = self._state.agents
        if one.name not in self._acted:
            self._acted.add(one.name)
            agents[:] = [name for name in agents if name in self._acted and name != one.name] + [one.name]
            self._identities[:] = [other for other in self._identities if other.name != one.name] + [one]
            self._run_output.take_up(one.name)
            if self._state.embedded or one.name in self._state.home.agents():  # else it may be another run's
                await set_weights(self._bus, [one], self._state.settings, self._state.found)
            self._changed()
        self._run_output.tell(safe_text(f"agent {one.name} begins, by its program", one_line=True))
