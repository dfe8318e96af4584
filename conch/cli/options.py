"""Options that several commands share, and finding the agent that a command is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, open_store
from conch.cli.people_facts import SHOWN, names_in, several
from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.experience import ExperienceReader

COMMON = CommonOptions()
"""No option given."""

AgentName = Annotated[str | None, Parameter(name="--agent", help="The agent, where there are several.")]
Limit = Annotated[int, Parameter(validator=Number(gte=1), help="The last N, printed oldest first.")]


@contextmanager
def reading(common: CommonOptions, agent: str | None) -> Iterator[tuple[ExperienceReader, str]]:
    """The home's experiences and the name of the agent that is meant, with or without a run.

    Raises StoreError when there are none yet, UsageError for an agent that is not there, or where one of several must
    be named.
    """
    with _opened(common) as (store, there, usual):
        name = meant(agent, there, usual)
        if name is None:
            raise several(there or usual)
        yield store, name


@contextmanager
def reading_all(common: CommonOptions, agent: str | None) -> Iterator[tuple[ExperienceReader, str | None]]:
    """The same, where all agents are meant unless one is named, or there is only one: None."""
    with _opened(common) as (store, there, usual):
        name = meant(agent, there, usual)
        yield store, None if agent is None and len(there) > 1 else name


@contextmanager
def _opened(common: CommonOptions) -> Iterator[tuple[ExperienceReader, tuple[str, ...], Sequence[str]]]:
    """The store, the agents that have acted according to it, and the agents that run or are configured."""
    home, settings = common.existing(), common.settings()
    store = open_store(home, settings)
    try:
        yield store, store.agents(), names_in(home, settings)
    finally:
        store.close()


def meant(named: str | None, there: tuple[str, ...], usual: Sequence[str]) -> str | None:
    """The agent that is named, or the only one; None: there are several. Raises UsageError for one that is not there.

    `there`: the agents that have acted; `usual`: those that run or are configured.
    """
    if named is None:
        if len(there) == 1:
            return there[0]
        return usual[0] if len(usual) == 1 and (usual[0] in there or not there) else None
    if named not in (*there, *usual):
        shown = ", ".join(there[:SHOWN]) + (", …" if len(there) > SHOWN else "")
        raise UsageError(f"there is no agent {named!r} here, but {shown or 'none has acted yet'} (--agent)")
    return named
