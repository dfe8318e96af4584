"""`conch status` on a terminal: one screen, whatever is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli.status import fitted, screen
from conch.experience import ComponentStats
from conch.views import Status

LONG = "something that nobody has thought of went wrong here, and this is the whole long story of how it came to be so "


def everything(count: int = 9) -> dict[str, Any]:
    """Whatever can go wrong has."""
    several = range(count)
    agent = {"agent": "echo", "state": "mind", "why": LONG, "needs": {f"need-{n}": 0.5 for n in range(4)}}
    goals = [{"id": f"g{n}", "statement": LONG, "best": None} for n in several]
    alarm = {"alarm": "held_out", "name": "paid, not better", "severity": "serious", "component": None}
    alarm |= {"value": 0.0, "threshold": 1.0, "now": None, "acknowledged": None}
    alarms = [alarm | {"agent": "echo", "since": 3, "what": LONG} for _ in several]
    names = [f"judge-number-{n}" for n in several]
    return {
        "home": "/home/somebody/of-a-long-name/and/a/deep/directory/with-conch",
        "running": True,
        "workspace": "/home/somebody/work",
        "rules": [],
        "pid": 12345,
        "started": "2026-11-20T12:00:00+00:00",
        "agent": agent | {"goals": goals, "tokens_in_hour": 123456},
        "agents": [],
        "states": {},
        "last_cycle": 123456,
        "processes": [
            {"name": name, "pid": None, "state": "down", "restarts": 5, "why": LONG}
            for name in ("nats-server", "agent", "consumers", "dashboard")
        ],
        "set_aside": [{"origin": f"/rules/{n}.py", "why": LONG} for n in several],
        "figures": {
            "count": 100, "mean_total": 0.25, "coverage": 0.5, "incomplete": 7,
            "outcomes": dict.fromkeys(("success", "error", "timeout", "blocked", "unknown", "none"), 20),
        },
        "cost": {"amounts": {"EUR": 12.5}, "known": 90, "unknown": 10},
        "unscored": 3,
        "components": [
            ComponentStats(f"component-{n}", "test", "1", 0.1, 9, 9, 0.5, 0.5, 0.5, 0, 0, 1.0) for n in range(10)
        ],
        "alarms": alarms,
        "needs": {},
        "bus_error": LONG,
        "stream": {"first": 1, "last": 123456, "messages": 123456, "bytes": 2**30},
        "consumers": [{"name": name, "lag": n} for n, name in enumerate(names)],
        "left_over": names,
        "held": [LONG * 2 for _ in several],
        "dead_letters": 12,
        "disk": {"used": 9, "free": 1, "share": 0.9, "warning": LONG},
        "store": {"bytes": 2**30, "removed": 123456, "came_late": 7},
        "ui": "http://127.0.0.1:26624",
        "metrics": "http://127.0.0.1:9464/metrics",
        "lineage": {
            "phase": "failed", "generation": 3, "adapter": "a" * 64, "step": 7, "steps": 90, "eta": None,
            "gate": "refused", "why": LONG,
        },
        "verdict": {
            "kind": "risen", "headline": "Better than at first; whether it still rises cannot be told yet.",
            "details": [LONG],
        },
    }  # fmt: skip


def told(found: dict[str, Any]) -> Status:
    """The view of it."""
    return Status.model_validate(found)


def test_everything_that_can_go_wrong_fits_one_screen() -> None:
    """24 rows of 80 cells with one left for the prompt: each kind of trouble is there, with how many more there are."""
    lines = fitted(list(screen(told(everything()))), 80, 24)

    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for label in ("agent", "processes", "set aside", "rewards", "mean", "outcomes", "alarm", "needs", "goals", "bus"):
        assert any(line.strip().startswith(label) for line in lines), label
    for label in (
        "lag        judge-number-8 8",
        "left over  judge-number-0",
        "trimming",
        "12 dead letters",
        "lineage",
        "verdict    Better than at first",
        "page",
        "metrics",
    ):
        assert label in text, label
    assert text.count("more") >= 4


def test_a_healthy_status_is_told_whole() -> None:
    """Where there is room nothing is left out."""
    lines = list(screen(told(everything() | {"bus_error": None})))

    assert fitted(lines, 400, 100) == lines


@given(count=st.integers(0, 12), columns=st.integers(40, 200), rows=st.integers(24, 80))
def test_no_screen_is_overfull(count: int, columns: int, rows: int) -> None:
    """No line is wider and no screen higher than the terminal, and nothing is left out that had room."""
    lines = list(screen(told(everything(count))))

    shown = fitted(lines, columns, rows)

    assert len(shown) <= rows - 1
    assert max(map(len, shown)) <= columns


@pytest.mark.parametrize("state", ["running", "paused"])
def test_many_agents_fit_too(state: str) -> None:
    """The first of them, and how many more there are."""
    rows = [{"agent": f"echo-{n}", "state": state, "why": LONG, "last_cycle": n, "mean": 0.1} for n in range(10)]
    found = everything() | {"agent": None, "agents": rows, "states": {state: 1000}}

    lines = fitted(list(screen(told(found))), 80, 24)

    assert len(lines) <= 23
    assert any(line.strip().startswith("agents       1000:") for line in lines)


def test_a_mean_of_few_acts_says_of_how_many() -> None:
    """Three free replies that failed, beside 97 that a grammar held, are no model whose form is always wrong."""
    found = [
        ComponentStats("format", "reward", "5", 0.3, 100, 3, -1.0, -1.0, -1.0, 0, 0, 1.0),
        ComponentStats("execution", "reward", "5", 0.25, 100, 100, 0.5, 0.5, 0.5, 0, 0, 1.0),
        ComponentStats("goal", "reward", "5", 0.15, 100, 40, 0.1, 0.1, 0.1, 0, 0, 1.0),
    ]

    [line] = [line for line in screen(told(everything() | {"components": found})) if line.startswith("  mean ")]

    assert line[13:].split("  ") == [
        "format -1.00 of 3 free replies",
        "execution +0.50",
        "goal +0.10 of 40 of 100 acts",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_name_keeps_its_figure(columns: int) -> None:
    """At every width a list is wrapped between its things, under its first one; no line is longer than the terminal."""
    line = "  mean       " + "  ".join(
        f"{name} +0.{at:02}" for at, name in enumerate(("format", "a_long_name" * 3) * 5)
    )

    lines = fitted([line], columns, 40)

    assert max(map(len, lines)) <= columns
    assert {one[:13] for one in lines[1:]} == {" " * 13}
    assert [pair for one in lines for pair in one[13:].split("  ")] == line[13:].split("  ")
