"""The metrics: what a fact costs, and how long a scrape takes, with so many agents that all acted since the last one.

    python -m metrics --agents 1000 --rounds 10

The agents are simulated; the exporter, its port and its formats are the real ones. The scraper is a process of its own
and asks as Prometheus does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from runs import options

from conch.bus import shared_subscription
from conch.bus.checkpoints import encode_state, state_key
from conch.bus.memory import MemoryBus
from conch.cli.common import quiet
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.rewards.watch import WatchState
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    Cut,
    Drives,
    Event,
    ExperienceRecorded,
    NeedsChanged,
    NoveltyMeasured,
    Outcome,
    ScoredPart,
    ThoughtFormed,
    ThoughtGrounded,
    Usage,
    action_id,
    cycle_event_id,
    decode,
    encode,
    source_of,
    subject_of,
)
from conch_services.metrics.counting import EventCounter
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.service import MetricsService

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
COMPONENTS = ("format", "execution", "needs", "goal", "exploration", "intrinsic", "alignment", "diversity", "ethical")
NEEDS = ("sustainability", "reliability", "curiosity", "excellence")
MAX_AGENTS = (100, 1000)
"""Of the setting: what it is by default, and every agent with labels of its own."""
EMPTY = Cut(text="", length=0, sha256="")


def cycle(agent: str, number: int) -> list[Event]:
    """The facts of one cycle that figures are made of."""
    agentuid = uuid.uuid5(uuid.NAMESPACE_URL, agent)
    identity = action_id(agentuid, number)
    value = (number * 37 % 100) / 100
    own: dict[str, Any] = {
        "source": source_of(agent, agentuid),
        "agent": agent,
        "cycle": number,
        "action_id": identity,
        "subject": identity,
        "traceparent": f"00-{number + 1:032x}-b7ad6b7169203331-01",
    }
    action = (
        Action(kind="TOOL", valid=True, tool="shell", args={}) if number % 3 else Action(kind="REFLECT", valid=True)
    )
    outcome = Outcome(status="success" if number % 3 else "none", output=EMPTY)
    ms = {"think": 20.0 + value, "ground": 2.0, "decide": 30.0, "act": 40.0}
    reply: dict[str, Any] = {"raw": "TOOL: shell()", "action": action, "model": "tide"}
    usage = Usage(input_tokens=900, output_tokens=40)
    scores = tuple(
        ScoredPart(component=name, value=value, weight=0.1, status="scored", explanation="", scorer="s", version="1")
        for name in COMPONENTS
    )
    drives = Drives(curiosity=value, competence=0.2, autonomy=0.3, social=0.4, intrinsic=value)
    novel = {"component": "exploration", "range": (0, 1), "status": "not_applicable", "scorer": "c", "version": "1"}
    hashed = {"raw_length": 13, "raw_sha256": "0" * 64}
    facts: list[tuple[type[Event], dict[str, Any]]] = [
        (
            ThoughtFormed,
            {"thought": EMPTY, "need": "curiosity", "pressing": {}, "model": "tide", "ms": 20, "usage": usage},
        ),
        (ThoughtGrounded, {"claims": (), "memory": (), "ms": 2.0}),
        (ActionDecided, reply | hashed | {"messages": (), "ms": 30.0, "finish_reason": "stop", "usage": usage}),
        (ActionTaken, reply | hashed | {"outcome": outcome, "needs": {}, "ms": ms, "tools": ("shell",)}),
        (
            NeedsChanged,
            {"before": dict.fromkeys(NEEDS, 0.5), "after": dict.fromkeys(NEEDS, value), "most_pressing": "curiosity"},
        ),
        (
            NoveltyMeasured,
            {"fingerprint": "", "skill": "shell", "novelty": value, "new_information": True, "success_rate": 0.5}
            | {"learning_progress": 0.1, "exploration_bonus": 0.5, "entropy": value, "drives": drives, "score": novel},
        ),
        (
            ExperienceRecorded,
            reply
            | {"outcome": outcome, "ms": ms, "scores": scores, "seq": number + 1, "revision": 1, "breakdown": ()}
            | {"acted_at": "2026-01-01T00:00:00Z", "total": value, "coverage": 1 - value / 2, "complete": True}
            | {"weights": "w"},
        ),
    ]
    return [kind.model_validate({"id": cycle_event_id(identity, kind)} | own | data) for kind, data in facts]


def watched(number: int) -> WatchState:
    """What the watchers know of an agent that does one thing and another."""
    paid = tuple(((number + at) * 7919 % 100) / 100 for at in range(200))
    return WatchState(
        seqs=tuple(range(200)),
        revisions=(1,) * 200,
        totals=paid,
        lengths=tuple(40 + at % 7 for at in range(200)),
        skills=("shell", "git") * 100,
        paid=COMPONENTS[:5],
        parts={name: tuple(each / 5 for each in paid) for name in COMPONENTS[:5]},
    )


def counted(agents: int) -> tuple[float, float]:
    """(µs to count a fact, µs to read it from its bytes), of the facts of so many agents."""
    facts = [fact for number in range(agents) for fact in cycle(f"agent-{number}", 1)]
    counting, at = EventCounter(Settings(), Instruments()), time.time()
    for fact in facts:
        counting.count(fact, at)
    again = [fact for number in range(agents) for fact in cycle(f"agent-{number}", 2)]
    began = time.thread_time()
    for number, fact in enumerate(again):
        counting.count(fact, at + 2.0 + number / len(again))  # every agent acts once in that second
    counts = time.thread_time() - began
    lines = [encode(fact) for fact in again]
    began = time.thread_time()
    for line in lines:
        decode(line)
    return 1e6 * counts / len(again), 1e6 * (time.thread_time() - began) / len(again)


async def scraped(agents: int, most: int, rounds: int) -> tuple[list[float], list[float], int, int]:
    """(seconds of each scrape, processor seconds that the exporter took for it, bytes and lines of the last); all
    agents have acted before each."""
    settings = Settings.model_validate({"metrics": {"port": 0, "max_agents": most}})
    times, costs, size, lines = [], [], 0, 0
    with tempfile.TemporaryDirectory() as home:
        async with MemoryBus() as bus:
            for number in range(agents):
                state = encode_state(watched(number), 200, "epoch")
                await bus.put(state_key("watch", f"agent-{number}"), state, revision=0)
            service, stop = MetricsService(ServiceContext(settings, Path(home))), asyncio.Event()
            async with shared_subscription(bus) as shared_events, asyncio.TaskGroup() as group:
                group.create_task(service.run(shared_events, stop))
                await service.started.wait()
                scraper = await asyncio.create_subprocess_exec(
                    *(sys.executable, __file__, "--scrape", f"{service.address}/metrics"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
                assert scraper.stdin is not None
                assert scraper.stdout is not None
                facts = 0
                for number in range(rounds + 1):
                    for one in range(agents):
                        for fact in cycle(f"agent-{one}", number):
                            await bus.publish(subject_of(fact), encode(fact), id=fact.id)
                            facts += 1
                    while service.tally.handled < facts:
                        await asyncio.sleep(0.01)
                    began = time.process_time()
                    scraper.stdin.write(b"\n")
                    told = (await scraper.stdout.readline()).split()
                    costs.append(time.process_time() - began)
                    times.append(float(told[0]))
                    size, lines = int(told[1]), int(told[2])
                scraper.stdin.close()
                await scraper.wait()
                stop.set()
    return times[1:], costs[1:], size, lines


def scrape(address: str) -> None:
    """The scraper: for each line on stdin one scrape; its seconds, bytes and lines on stdout."""
    for _ in sys.stdin:
        began = time.perf_counter()
        with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": ACCEPT})) as answer:
            text = answer.read()
        took = time.perf_counter() - began
        print(took, len(text), text.count(b"\n"), flush=True)


def main() -> None:
    """Print the figures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scrape", help=argparse.SUPPRESS)
    chosen = options(parser, agents=10, rounds=2)
    if chosen.scrape:
        scrape(chosen.scrape)
        return
    quiet()
    counts, reads = counted(chosen.agents)
    print(f"a fact is counted in {counts:.1f} µs, and read from its bytes before that in {reads:.0f} µs", flush=True)
    for most in MAX_AGENTS:
        times, costs, size, lines = asyncio.run(scraped(chosen.agents, most, chosen.rounds))
        print(
            f"{chosen.agents} agents that all acted since the last scrape, metrics.max_agents {most}: "
            f"{1e3 * statistics.median(times):.0f} ms in the middle, {1e3 * max(times):.0f} ms at most, "
            f"{1e3 * statistics.median(costs):.0f} ms of the exporter's processor, "
            f"of {len(times)} scrapes of {lines:,} lines ({size / 2**20:.1f} MiB)",
            flush=True,
        )


if __name__ == "__main__":
    main()
