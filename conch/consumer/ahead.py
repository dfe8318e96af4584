"""Many acts at once for a rule's process: the next ones are on their way while it works on one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from conch.consumer.rule import RuleWorker, WorkerGoneError
from conch_schemas import ActionTaken, Score

AHEAD, AHEAD_BYTES = 64, 2**20
"""Acts, and bytes of them, that are on their way to the process beside the one it works on."""


class AheadWorker(RuleWorker):
    """Of a rule that carries nothing from one act to the next."""

    async def score_all(self, actions: Sequence[ActionTaken]) -> list[Score]:
        """`score` of each, in their order.

        An act's time counts from the answer before it. One that the process ended over is asked once more by itself:
        it may have ended between two acts. Cancelled, the process is ended.
        """
        scores: list[Score] = []
        while len(scores) < len(actions):
            async with self._lock:
                await self._score_ahead(actions[len(scores) :], scores)
            if len(scores) < len(actions) and self._process is None:
                scores.append(await self.score(actions[len(scores)]))
        return scores

    async def _score_ahead(self, actions: Sequence[ActionTaken], scores: list[Score]) -> None:
        """As many of these as go, put behind `scores`: all, or those up to one that ended the process or its time."""
        waiting, sent, room = iter(actions), deque[int](), AHEAD_BYTES
        try:
            if self._process is None:
                await self._start()
            for action in actions:
                while room > 0 and len(sent) < AHEAD and (following := next(waiting, None)) is not None:
                    sent.append(self._send(following))
                    room -= sent[-1]
                async with asyncio.timeout(self._seconds):
                    answer = await self._answer_to(action)
                room += sent.popleft()
                scores.append(self._judge(answer))
                if answer.get("anew"):
                    await self.close()
                    return
        except TimeoutError:
            await self.close()
            scores.append(self._late())
        except WorkerGoneError:
            await self.close()
        except asyncio.CancelledError:
            await self.close()
            raise

    def _send(self, action: ActionTaken) -> int:
        """Have the act on its way; its bytes."""
        assert self._process is not None
        assert self._process.stdin is not None
        lines = self._question(None, action)
        with contextlib.suppress(OSError):  # it is gone: reading says how
            self._process.stdin.write(lines)
        return len(lines)
