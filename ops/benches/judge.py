"""What a judge costs beside its model: a remembered answer in microseconds, and acts a second at an endpoint that takes
50 ms for each, in a process of its own, by how many questions are asked at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import gaming
from lives import lived
from runs import options

from conch.config import Settings
from conch.judge import Judge, judge_key
from conch.judge.act import trajectory_of
from conch.judge.answer import read_judgement
from conch.judge.question import question_of
from conch_schemas import ActionTaken

SECONDS: Final = 0.05
"""That the endpoint takes for an answer."""
AT_ONCE: Final = (1, 4, 16, 64)
ANSWER: Final = json.dumps({"explanation": "Weighed by the rubric.", "score": 0.5})
COMPLETION: Final = json.dumps(
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}]}
).encode()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(COMPLETION)}\r\n\r\n".encode()
    try:
        while asked := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
            length = next(int(line[16:]) for line in asked.split("\r\n") if line.startswith("content-length: "))
            await reader.readexactly(length)
            await asyncio.sleep(SECONDS)
            writer.write(head + COMPLETION)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _serve(told: Connection) -> None:
    async def live() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(live())


@contextmanager
def endpoint() -> Iterator[str]:
    """Its address."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{here.recv()}/v1"
    process.kill()


def _judge(home: Path, url: str, at_once: int) -> Judge:
    (home / "rubric.md").write_text("Is what was done useful, and no more than was asked for?")
    own = {"rubric": str(home / "rubric.md"), "base_url": url, "concurrency": at_once, "calls_per_hour": 10_000_000}
    return Judge("bench", Settings.model_validate({"rewards": {"judges": {"bench": own}}}), home)


async def throughput(acts: list[ActionTaken], url: str, at_once: int) -> tuple[float, float]:
    """(acts a second, each asked; milliseconds of CPU of each)."""
    with tempfile.TemporaryDirectory() as home:
        judge = _judge(Path(home), url, at_once)
        await judge.judge_act(acts[0])
        began, busy = time.perf_counter(), time.process_time()
        scores = await asyncio.gather(*(judge.judge_act(act) for act in acts[1:]))
        taken, busy = time.perf_counter() - began, time.process_time() - busy
        await judge.close()
    assert {score.status for score in scores} == {"scored"}
    return len(scores) / taken, busy / len(scores) * 1000


async def remembered(acts: list[ActionTaken], url: str, turns: int) -> dict[str, list[float]]:
    """Microseconds of each turn: a remembered answer whole, and the steps of a question."""
    found: dict[str, list[float]] = {"a remembered answer, whole": [], "its key": [], "the question": [], "reading": []}
    with tempfile.TemporaryDirectory() as home:
        judge = _judge(Path(home), url, 64)
        await asyncio.gather(*(judge.judge_act(act) for act in acts))
        for act in acts * turns:
            trajectory = trajectory_of(act)
            marks = [time.perf_counter()]
            await judge.judge_act(act)
            marks.append(time.perf_counter())
            judge_key(trajectory, judge.config)
            marks.append(time.perf_counter())
            question_of(trajectory, judge.config.rubric)
            marks.append(time.perf_counter())
            read_judgement(ANSWER, trajectory.messages)
            marks.append(time.perf_counter())
            for name, began, ended in zip(found, marks, marks[1:], strict=False):
                found[name].append((ended - began) * 1e6)
        await judge.close()
    return found


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=400)
    parser.add_argument("--turns", type=int, default=5)
    chosen = options(parser, acts=20, turns=1)
    acts = list(lived(gaming.AGENTS[gaming.WORKS], chosen.acts).acts)
    with endpoint() as url:
        print("| step | µs, median | 95 % |\n|---|---|---|")
        for name, values in asyncio.run(remembered(acts, url, chosen.turns)).items():
            print(f"| {name} | {statistics.median(values):.0f} | {sorted(values)[int(0.95 * len(values))]:.0f} |")
        print("\n| at once | acts/s | of what 50 ms allow | CPU ms an act |\n|---|---|---|---|")
        for at_once in AT_ONCE:
            rate, busy = asyncio.run(throughput(acts, url, at_once))
            print(f"| {at_once} | {rate:.0f} | {rate * SECONDS / at_once:.0%} | {busy:.2f} |")


if __name__ == "__main__":
    main()
