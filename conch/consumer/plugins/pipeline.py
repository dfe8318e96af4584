"""Pipelined scoring by a rule's process: the next acts are sent while it works on one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from conch.consumer.plugins.rule_process import RuleWorker
from conch.processes import RuleFailed, WorkerGoneError
from conch_schemas import ActionTaken, Score

AHEAD, AHEAD_BYTES = 64, 2**20
"""Acts, and their bytes, that are sent ahead of the one that the process works on."""
Told = Callable[[ActionTaken, Score], object]
"""Is given each act with its score."""


class PipelinedRuleWorker(RuleWorker):
    """A rule worker for stateless rules: it sends acts ahead of the answers."""

    async def score_all(self, actions: Sequence[ActionTaken], told: Told) -> None:
        """Call `told` with the `score` of each act as soon as it is there, in order.

        An act's time counts from the answer before it. One that the process ended over is asked once more by itself:
        it may have ended between two acts. Cancelled, the process is ended.
        """
        done = 0
        while done < len(actions):
            async with self._lock:
                done += await self._score_ahead(actions[done:], told)
            if done < len(actions) and self._process is None:
                told(actions[done], await self.score(actions[done]))
                done += 1

    async def _score_ahead(self, actions: Sequence[ActionTaken], told: Told) -> int:
        """Score acts until one ends the process or runs out of time; returns how many were scored."""
        waiting, sent, room, done = iter(actions), deque[int](), AHEAD_BYTES, 0
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
                told(action, self.judge(answer))
                done += 1
                if isinstance(answer, RuleFailed) and answer.restart:
                    await self.close()
                    break
        except TimeoutError:
            await self.close()
            told(actions[done], self.late())
            done += 1
        except WorkerGoneError:
            await self.close()
        except asyncio.CancelledError:
            await self.close()
            raise
        return done

    def _send(self, action: ActionTaken) -> int:
        """Send the act; returns its size in bytes."""
        assert self._process is not None
        lines = self._question(None, action)
        self._process.write(lines)
        return len(lines)
