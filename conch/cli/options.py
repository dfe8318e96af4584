"""Options that several commands share, and which agent is meant by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import Common, open_store
from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.experience import ExperienceReader

COMMON = Common()
"""No option given."""

AgentName = Annotated[str | None, Parameter(name="--agent", help="The agent, where there are several.")]
Limit = Annotated[int, Parameter(validator=Number(gte=1), help="The last N, printed oldest first.")]


@contextmanager
def reading(common: Common, agent: str | None) -> Iterator[tuple[ExperienceReader, str]]:
    """The home's experiences and the name of the agent that is meant, with or without a run.

    Raises StoreError when there are none yet, UsageError for an agent that is not there.
    """
    home, settings = common.existing(), common.settings()
    store = open_store(home, settings)
    try:
        yield store, _meant(agent, store.agents(), settings.agent)
    finally:
        store.close()


def _meant(named: str | None, there: tuple[str, ...], usual: str) -> str:
    if named is None:
        return there[0] if len(there) == 1 else usual
    if named not in (*there, usual):
        raise UsageError(f"there is no agent {named!r} here, but {', '.join(there) or 'none has acted yet'} (--agent)")
    return named
