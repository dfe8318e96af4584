"""The wait of an agent for a person's decision on its act.

`act.asked` is stored before `action.decided`, and holds all that the decision is made of. So an agent that is killed
while it waits finds the act in its memory and waits on, until the same time; the mind is not asked again. The decision
is a fact, too: `action.decided` and the act follow it, before or after a restart.
"""

from __future__ import annotations

import time

from conch.cycle.approvals.answer import clock, short_id
from conch.cycle.control import Control, StoppedError
from conch.cycle.inbox import Inbox
from conch.cycle.state.recover import RecoveredAgent
from conch_schemas import ActApproved, ActAsked, ActDenied


class ApprovalWait:
    """The wait of one agent for the decision on its act. It obeys a pause and a stop."""

    def __init__(self, control: Control, inbox: Inbox, at: RecoveredAgent) -> None:
        self._control, self._inbox, self._at = control, inbox, at

    async def answer(self) -> ActApproved | ActDenied:
        """The decision on the act that waits, once there is one and the agent is not paused. Denies the act when its
        time is over.

        Raises StoppedError when told to stop: the next run waits on.
        """
        try:
            while True:
                asked, answer = self._at.memory.asked, self._at.memory.answer
                assert asked is not None
                if self._control.stopping:
                    raise StoppedError
                left = asked.until.timestamp() - time.time()
                if answer is not None and not self._control.paused:
                    return answer
                if answer is None and left <= 0:
                    await self._inbox.time_out(asked)
                    continue
                self._control.asks("" if answer is not None else _words(asked))
                await self._control.change(left if answer is None else None)
        finally:
            self._control.asks("")


def _words(asked: ActAsked) -> str:
    named = short_id(asked)
    return (
        f"{asked.action.skill} waits for a person's approval until {clock(asked.until)}: conch approve {named}, "
        f"or conch approve {named} --deny"
    )
