"""The life of a lineage: rounds that end in each way, with their gates, trials, promotions and a rollback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import NAMESPACE_URL, uuid5

from conch.bus import Bus
from conch_schemas import (
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterTried,
    Event,
    GateCondition,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    encode,
    source_of,
    subject_of,
    training_id,
)

E = TypeVar("E", bound=Event)

BASE: Final = "smollm2-135m-instruct"
STEPS: Final = 24
"""Steps of each round."""


def digest_of(name: str) -> str:
    """A digest for what has this name: `round 1`, `adapter 1`, `data 1`."""
    return hashlib.sha256(name.encode()).hexdigest()


@dataclass(frozen=True)
class LineageLife:
    """Makes the events of one agent's lineage. The same call gives the same events."""

    agent: str = "echo"
    begun: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)
    step: float = 1.0
    """Seconds from event to event."""

    @property
    def uid(self) -> str:
        """The UUID of the agent, as `tests.dashboard.life` has it."""
        return str(uuid5(NAMESPACE_URL, self.agent))

    def digest(self, name: str) -> str:
        """A digest of this lineage: another agent's are others."""
        return digest_of(name if self.agent == "echo" else f"{self.agent} {name}")

    def whole(self, *, running: bool = False) -> list[Event]:
        """Five rounds: one is promoted, one refused by the gate, one fails, one is promoted and rolled back, one is
        refused by its canary; `running`: a sixth trains."""
        events = [
            *self.promoted(1, "sft", 1, None, move=1),
            *self.refused(2),
            *self.failed(3),
            *self.promoted(4, "dpo", 2, 1, move=2),
            self.rolled_back(4, 1, move=3),
            *self.unproven(5),
            *(self.training(6, 2, STEPS // 2) if running else ()),
        ]
        return [
            one.model_copy(update={"time": self.begun + timedelta(seconds=self.step * number)})
            for number, one in enumerate(events)
        ]

    def training(self, number: int, generation: int, steps: int, method: str = "dpo") -> list[Event]:
        """A round up to this step."""
        round = self.digest(f"round {number}")
        started = self.said(
            TrainingStarted,
            number,
            round=round,
            attempt=1,
            method=method,
            generation=generation,
            base=BASE,
            snapshot=self.digest(f"data {number}"),
            rows=100 * number,
            replay_rows=15 * (number - 1),
            seen=200 * number,
            why="schedule",
            settings={"learning_rate": 2e-4, "epochs": 2, "r": 16},
        )
        return [started, *(self._progressed(number, round, step, method) for step in range(1, steps + 1))]

    def promoted(self, number: int, method: str, generation: int, before: int | None, *, move: int) -> list[Event]:
        """A round whose adapter passes the gate, is better in its trials and acts from then on; `before`: the number of
        the round whose adapter acted."""
        previous = None if before is None else self.digest(f"adapter {before}")
        return [
            *self.trained(number, generation, method),
            self.gated(number, previous, "passed"),
            *self.tried(number, previous, "shadow", "equivalent"),
            *self.tried(number, previous, "canary", "better"),
            self.probed(number),
            self.said(
                AdapterPromoted,
                move,
                adapter=self.digest(f"adapter {number}"),
                previous=previous,
                generation=generation,
                move=move,
                by="trial",
                round=self.digest(f"round {number}"),
                why="its cycles earned 0.210 more (0.080 to 0.340)",
                evidence=training_id(self.uid, AdapterTried, number, "canary", "better"),
            ),
        ]

    def refused(self, number: int, at: str = "gate") -> list[Event]:
        """A round whose adapter the gate, or a person, refuses."""
        why = "the lower bound of the difference is -0.110, it must be above 0.020"
        return [
            *self.trained(number, 2, "dpo"),
            self.gated(number, self.digest("adapter 1"), "refused"),
            self._refused(number, at, why),
        ]

    def unproven(self, number: int) -> list[Event]:
        """A round whose adapter passes the gate and is worse in its canary."""
        return [
            *self.trained(number, 2, "kto"),
            self.gated(number, self.digest("adapter 1"), "passed"),
            *self.tried(number, self.digest("adapter 1"), "canary", "worse"),
            self._refused(number, "canary", "its cycles earned 0.150 less (-0.260 to -0.040)"),
        ]

    def failed(self, number: int) -> list[Event]:
        """A round that ends without an adapter, for want of memory."""
        why = "the process was ended at its memory limit of 2048 MiB: raise training.memory_mib, or lower the batch"
        failed = self.said(
            TrainingFailed, number, round=self.digest(f"round {number}"), attempt=1, why=why, again=False
        )
        return [*self.training(number, 2, 3), failed]

    def rolled_back(self, number: int, to: int | None, *, move: int) -> Event:
        """The adapter of a round is taken back, as its acts earn less."""
        return self.said(
            AdapterRolledBack,
            move,
            adapter=self.digest(f"adapter {number}"),
            to=None if to is None else self.digest(f"adapter {to}"),
            generation=0 if to is None else 1,
            move=move,
            trigger="worse",
            why="its cycles earned 0.180 less than those before (-0.300 to -0.060)",
        )

    def trained(self, number: int, generation: int, method: str) -> list[Event]:
        """A round up to its adapter."""
        finished = self.said(
            TrainingFinished,
            number,
            round=self.digest(f"round {number}"),
            attempt=1,
            adapter=self.digest(f"adapter {number}"),
            bytes=9_400_000,
            seconds=312.5,
            tokens=41_000,
            figures={"loss": 0.41, "eval_loss": 0.52, "kl": 0.19, "peak_mib": 1_310.0},
        )
        return [*self.training(number, generation, STEPS, method), finished]

    def gated(self, number: int, incumbent: str | None, verdict: str) -> Event:
        """The gate's table of a round's adapter: all conditions hold, or the difference does not."""
        good = verdict == "passed"
        low = 0.094 if good else -0.110
        conditions = (
            GateCondition(
                name="difference",
                candidate=0.412 if good else 0.231,
                incumbent=0.228,
                limit=0.02,
                holds=good,
                why=f"the lower bound of the difference is {low:.3f}, it must be above 0.020",
            ),
            GateCondition(
                name="format",
                candidate=0.97,
                incumbent=0.61,
                limit=0.59,
                holds=True,
                why="97 % of the replies are valid, 61 % of the incumbent's",
            ),
            GateCondition(
                name="safety", candidate=0.0, incumbent=0.0, limit=0.0, holds=True, why="no violation in 100 replies"
            ),
            GateCondition(name="held_out_rule", holds=None, why="the judge of the held-out rule does not answer"),
        )
        return self.said(
            AdapterGated,
            number,
            round=self.digest(f"round {number}"),
            adapter=self.digest(f"adapter {number}"),
            incumbent=incumbent,
            verdict=verdict,
            conditions=conditions if not good else conditions[:3],
            number=number,
            alpha=0.0304 / number**2,
            pairs=100,
            difference=0.184 if good else 0.003,
            bound=low,
            evidence=self.digest(f"evidence {number}"),
        )

    def tried(self, number: int, incumbent: str | None, stage: str, verdict: str) -> list[Event]:
        """A trial from its begin to its outcome."""
        difference, low, high = {"better": (0.21, 0.08, 0.34), "worse": (-0.15, -0.26, -0.04)}.get(
            verdict, (0.01, -0.03, 0.05)
        )
        common: dict[str, Any] = {
            "round": self.digest(f"round {number}"),
            "adapter": self.digest(f"adapter {number}"),
            "incumbent": incumbent,
            "stage": stage,
            "cycle_from": 10 * number,
        }
        begun = self.said(AdapterTried, number, stage, "begun", verdict=None, **common)
        figures = {"pairs": 80, "difference": difference, "low": low, "high": high}
        why = f"after 80 pairs of blocks the interval of the difference is {low:.3f} to {high:.3f}"
        return [begun, self.said(AdapterTried, number, stage, verdict, verdict=verdict, why=why, **figures, **common)]

    def probed(self, number: int, *, proven: bool = True) -> Event:
        """The probe of a round's adapter."""
        adapter = self.digest(f"adapter {number}")
        served = f"conch-{adapter[:16]}"
        return self.said(
            AdapterProbed, number, adapter=adapter, engine="local", served_as=served, proven=proven, ms=840.0
        )

    def said(self, kind: type[E], *parts: object, **data: Any) -> E:
        """An event of the lineage."""
        source = source_of(self.agent, self.uid)
        id = training_id(self.uid, kind, *parts)
        return kind.model_validate(
            {"id": id, "source": source, "agent": self.agent, "time": self.begun.isoformat(), **data}
        )

    def _refused(self, number: int, at: str, why: str) -> Event:
        round, adapter = self.digest(f"round {number}"), self.digest(f"adapter {number}")
        return self.said(AdapterRefused, number, round=round, adapter=adapter, at=at, why=why)

    def _progressed(self, number: int, round: str, step: int, method: str) -> Event:
        left = 1.0 - step / STEPS
        return self.said(
            TrainingProgressed,
            number,
            step,
            round=round,
            attempt=1,
            step=step,
            steps=STEPS,
            epoch=2.0 * step / STEPS,
            loss=0.4 + 1.7 * left**2,
            eval_loss=0.5 + 1.6 * left**2 if step % 6 == 0 else None,
            kl=0.2 * (1 - left),
            margin=None if method == "sft" else 0.8 * (1 - left),
            grad_norm=1.0 + left,
            learning_rate=2e-4 * left,
            tokens_per_second=131.0,
            eta=13.0 * (STEPS - step),
        )


async def publish(bus: Bus, events: Iterable[Event]) -> int:
    """Put these events on the bus, in this order; the sequence of the last one."""
    seq = 0
    for one in events:
        seq = (await bus.publish(subject_of(one), encode(one), id=one.id)).seq
    return seq
