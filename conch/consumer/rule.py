"""A plug-in rule as a consumer: scored in a process of its own, so that one which blocks, grows or exits harms only
itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

import structlog

from conch.bus.server import die_with_parent
from conch.consumer.discover import Plugin
from conch.consumer.follow import follow
from conch.consumer.spec import ConsumerSpec
from conch.text import safe_text
from conch_schemas import ActionTaken, Event, RewardAssigned, Score, encode

log = structlog.get_logger(__name__)

START_SECONDS = 20.0
"""Time to import a rule's file: it does not count as the rule's."""
AHEAD, AHEAD_BYTES = 64, 2**20
"""Acts, and bytes of them, that are on their way to the process beside the one it works on."""
_LINE_LIMIT = 64 * 1024
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""numpy reserves memory for a thread per processor: on a large machine more than the rule's limit."""


class RuleWorker:
    """The process that one rule runs in. It is started when first needed and again after it died."""

    def __init__(self, plugin: Plugin, *, timeout: float, memory_mib: int) -> None:
        self._plugin, self._timeout, self._memory_mib = plugin, timeout, memory_mib
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def score(self, action: ActionTaken) -> Score:
        """The rule's score of this act; whatever it does, a Score comes back. Cancelled, the process is ended."""
        async with self._lock:
            try:
                if self._process is not None and self._process.returncode is not None:
                    await self.close()  # it ended between two acts: this one is not to blame
                if self._process is None:
                    await self._start()
                async with asyncio.timeout(self._plugin.timeout or self._timeout):
                    answer = await self._ask(action)
            except TimeoutError:
                await self.close()
                return self._score("timeout", why=f"no value within {self._plugin.timeout or self._timeout:g} s")
            except _WorkerGoneError as gone:
                await self.close()
                return self._score("error", why=str(gone))
            except asyncio.CancelledError:
                await self.close()
                raise
        return self._judge(answer)

    async def score_all(self, actions: Sequence[ActionTaken]) -> list[Score]:
        """`score` of each, in their order: the next ones are on their way to the process while it works on one.

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
                async with asyncio.timeout(self._plugin.timeout or self._timeout):
                    answer = await self._answer_to(action)
                room += sent.popleft()
                scores.append(self._judge(answer))
        except TimeoutError:
            await self.close()
            scores.append(self._score("timeout", why=f"no value within {self._plugin.timeout or self._timeout:g} s"))
        except _WorkerGoneError:
            await self.close()
        except asyncio.CancelledError:
            await self.close()
            raise

    def _judge(self, answer: dict[str, Any]) -> Score:
        if "error" in answer:
            return self._score("error", why=str(answer["error"]))
        value = answer.get("value")
        if value is None:
            return self._score("not_applicable", why="the rule says: not applicable")
        low, high = self._plugin.low, self._plugin.high
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return self._score("error", why=f"returned {value!r}, not a finite number or None")
        if not low <= value <= high:
            return self._score("error", why=f"returned {value!r}, outside its range {low:g}..{high:g}")
        return self._score("scored", float(value))

    def _score(self, status: Any, value: float | None = None, why: str = "") -> Score:
        return Score(
            component=self._plugin.name,
            value=value,
            range=(self._plugin.low, self._plugin.high),
            status=status,
            explanation=safe_text(why or self._plugin.doc.strip().partition("\n")[0], one_line=True)[:500],
            scorer=self._plugin.name,
            version=self._plugin.version,
        )

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "conch.consumer.worker",
            self._plugin.origin,
            self._plugin.name,
            str(self._memory_mib),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
            start_new_session=True,
            limit=_LINE_LIMIT,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                answer = await self._answer()
        except TimeoutError:
            raise _WorkerGoneError(f"its file was still being imported after {START_SECONDS:g} s") from None
        if "error" in answer:
            raise _WorkerGoneError(str(answer["error"]))

    async def _ask(self, action: ActionTaken) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        self._send(action)
        with contextlib.suppress(OSError):  # it is gone: reading says how
            await self._process.stdin.drain()
        return await self._answer_to(action)

    def _send(self, action: ActionTaken) -> int:
        """Have the act on its way; its bytes."""
        assert self._process is not None
        assert self._process.stdin is not None
        line = encode(action) + b"\n"
        with contextlib.suppress(OSError):
            self._process.stdin.write(line)
        return len(line)

    async def _answer_to(self, action: ActionTaken) -> dict[str, Any]:
        while (answer := await self._answer()).get("id") != action.id:
            log.warning("reward.rule_spoke_out_of_turn", rule=self._plugin.name)
        return answer

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            answer = json.loads(line) if line else None
        except ValueError:
            raise _WorkerGoneError("its process wrote something else than a score") from None
        if not isinstance(answer, dict):
            status = await self._process.wait()
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
            raise _WorkerGoneError(f"the rule ended its process ({how})")
        return answer

    async def close(self) -> None:
        """End the process and whatever it started. Twice is once."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class _WorkerGoneError(Exception):
    """The rule's process is of no use any more; the message says why."""


def rule_consumer(
    plugin: Plugin, *, timeout: float, memory_mib: int, begin: int = 0
) -> tuple[ConsumerSpec, RuleWorker]:
    """The consumer `rule-<name>` that has a plug-in rule score every act, and the process it does it in.

    A rule that is new begins behind `begin`: where it was first given a weight. Scoring the past is another matter.
    """
    worker = RuleWorker(plugin, timeout=timeout, memory_mib=memory_mib)

    async def handle(action: ActionTaken) -> Event:
        score = await worker.score(action)
        return follow(
            action,
            RewardAssigned,
            consumer=f"rule-{plugin.name}",
            version=plugin.version,
            scorer=plugin.name,
            scores=(score,),
        )

    name = f"rule-{plugin.name}"
    return ConsumerSpec(name, plugin.version, (ActionTaken,), handle, emits=(RewardAssigned,), begin=begin), worker
