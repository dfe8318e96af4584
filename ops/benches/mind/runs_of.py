"""Real runs of a mind: the goals that it reached, its rewards, its decisions a minute, its prompts' sections."""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from learning import reached
from runs import conch_run, fresh_home
from workspaces import BenchWorkspace

from conch.cycle.state.sent import sent_prompts
from conch.home import Home

BENCHES = Path(__file__).resolve().parents[1]
MINDS = {
    "SmolLM2": ("--mind", "local"),
    "reflex": ("--mind", "reflex"),
    "blind choice": ("--mind", "reflex"),
}


@dataclass(frozen=True)
class RunFigures:
    """One or several runs of one mind."""

    totals: list[float]
    goals: int
    """Reached by an act, of all agents."""
    valid: float
    """Shares of all acts, 0..1."""
    succeeded: float
    idle: float
    first: float
    """Seconds from the command to the first recorded act."""
    a_minute: float
    """Decisions a minute, of all agents, between the first and the last."""
    sections: dict[str, float]
    """Mean tokens a cycle by section of the prompt."""
    counted: str

    @property
    def rate(self) -> float:
        """Goals per 100 cycles."""
        return 100 * self.goals / len(self.totals)


def lived(mind: str, agents: int, cycles: int, workspace: BenchWorkspace | None = None, seed: int = 0) -> RunFigures:
    """A run as fast as it goes, of agents with seeds of their own, each in a default workspace; or in `workspace`."""
    with fresh_home() as home:
        env = {"CONCH_MIND__MODEL": "random"} if mind == "blind choice" else {}
        chosen = ["--agents", str(agents), "--cycles", str(cycles), "--interval", "0", *MINDS[mind]]
        if workspace is not None:
            workspace.furnish(Path(home))
            env["PYTHONPATH"] = str(BENCHES)
            chosen += ["--seed", str(seed)]
        timed = conch_run(home, *chosen, env=env)
        rows, count = timed.rows, len(timed.rows)
        times = sorted(datetime.fromisoformat(row["time"]) for row in rows)
        sections, counted = _sections(Path(home), {row["agent"] for row in rows}, cycles)
        return RunFigures(
            totals=[row["total"] for row in rows],
            goals=asyncio.run(reached(Path(home))),
            valid=sum(row["action"]["valid"] for row in rows) / count,
            succeeded=sum(row["outcome"] == "success" for row in rows) / count,
            idle=sum(row["action"]["valid"] and row["action"]["kind"] != "TOOL" for row in rows) / count,
            first=timed.first,
            a_minute=60 * (count - 1) / max(1e-9, (times[-1] - times[0]).total_seconds()),
            sections=sections,
            counted=counted,
        )


def _sections(home: Path, agents: set[str], cycles: int) -> tuple[dict[str, float], str]:
    found: dict[str, list[int]] = defaultdict(list)
    counted: set[str] = set()
    for agent in agents:
        for cycle in range(cycles):
            for sent in sent_prompts(Home(home).agent_dir(agent), cycle):
                counted.add(sent.counted)
                for part in sent.parts:
                    found[part.name].append(part.tokens)
    return {name: statistics.fmean(tokens) for name, tokens in found.items()}, " and ".join(sorted(counted))
