"""The drawings of a team: its roles with who talks to whom, and its steps with topology and reward. Pure."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import Final, NamedTuple

from conch.teams import PLANNER, WINDOW, known_topology, may_send
from conch.views import TeamView

WIDTH, HEIGHT = 520, 340
"""Of the graph."""
_CENTRE: Final = (260.0, 160.0)
_RADII: Final = (185.0, 118.0)
NODE: Final = 26
"""Radius of a role."""
_APART: Final = 16.0
"""Half of the distance between the two directions of a pair."""
COLOURS: Final = (1, 2, 3, 4, 5)
"""Colours of the roles, in their order; a sixth role begins anew."""
TOPOLOGY_COLOURS: Final = {"star": 7, "chain": 8, "flat": 6}
TALL: Final = 120
"""Height of the drawing of the steps."""
_ZERO, _REACH = 48.0, 44.0


class GraphRole(NamedTuple):
    """A role in the graph."""

    role: str
    colour: int
    x: float
    y: float
    has_turn: bool
    unread: int


class GraphLink(NamedTuple):
    """A way from one role to another one."""

    sender: str
    to: str
    path: str
    x: float
    """Middle of the way."""
    y: float
    messages: int
    """In the last WINDOW steps."""
    width: float
    is_last: bool
    """Whether the last message went here."""


class TeamGraph(NamedTuple):
    """Roles and ways: those that the topology allows, and those that were used of late."""

    roles: tuple[GraphRole, ...]
    links: tuple[GraphLink, ...]


class DrawnStep(NamedTuple):
    """A step in the drawing of the steps, one unit wide."""

    at: int
    y: float
    height: float
    """0: it earned nothing, or nothing yet."""
    is_loss: bool
    colour: int
    """Of its role."""


class DrawnSpan(NamedTuple):
    """Steps in a row under one topology."""

    at: int
    length: int
    topology: str
    colour: int


class TeamTimeline(NamedTuple):
    """The last steps."""

    width: int
    first: int
    """The number of the first step."""
    steps: tuple[DrawnStep, ...]
    spans: tuple[DrawnSpan, ...]
    switches: tuple[int, ...]
    """Steps of the drawing before which a switch was committed."""
    most: float
    """The reward that the tallest bar stands for."""


def team_graph(team: TeamView) -> TeamGraph:
    """The graph of a team: in a star the planner stands in the middle, else all stand in a round."""
    roles = tuple(row.role for row in team.by_role)
    places = _places(team.topology, roles)
    recent = [one for one in team.messages if one.step > team.steps - 1 - WINDOW]
    counts = Counter((one.sender, to) for one in recent for to in one.to)
    last = team.messages[-1] if team.messages else None
    topology = known_topology(team.topology)
    most = max(counts.values(), default=1)
    links = [
        _link(sender, to, places[sender], places[to], counts[sender, to], most)._replace(
            is_last=last is not None and sender == last.sender and to in last.to
        )
        for sender in roles
        for to in roles
        if sender != to and (counts[sender, to] or (topology is not None and may_send(topology, sender, to, roles)))
    ]
    return TeamGraph(
        tuple(
            GraphRole(row.role, COLOURS[at % len(COLOURS)], *places[row.role], row.role == team.turn, row.waiting)
            for at, row in enumerate(team.by_role)
        ),
        tuple(sorted(links, key=lambda link: (link.is_last, link.messages))),
    )


def team_timeline(team: TeamView) -> TeamTimeline:
    """The last steps of a team: what each earned, whose it was, and the topology."""
    colours = {row.role: COLOURS[at % len(COLOURS)] for at, row in enumerate(team.by_role)}
    most = max((abs(one.reward) for one in team.last_steps if one.reward is not None), default=0.0)
    steps = []
    for at, one in enumerate(team.last_steps):
        reward = one.reward or 0.0
        height = _REACH * abs(reward) / most if most else 0.0
        top = _ZERO - height if reward > 0 else _ZERO
        steps.append(DrawnStep(at, top, height, reward < 0, colours.get(one.role, 6)))
    spans, at = [], 0
    for topology, group in groupby(team.last_steps, key=lambda one: one.topology):
        length = len(list(group))
        spans.append(DrawnSpan(at, length, topology, TOPOLOGY_COLOURS.get(topology, 6)))
        at += length
    first = team.last_steps[0].step if team.last_steps else 0
    switches = tuple(one.step - first for one in team.switches if 0 < one.step - first <= len(steps))
    return TeamTimeline(max(1, len(steps)), first, tuple(steps), tuple(spans), switches, most)


def _places(topology: str, roles: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """The place of each role, (x, y)."""
    middle = {PLANNER: _CENTRE} if topology == "star" and len(roles) > 2 else {}
    around = [role for role in roles if role not in middle]
    turns = {role: 2 * math.pi * at / len(around) - math.pi / 2 for at, role in enumerate(around)}
    return middle | {
        role: (_CENTRE[0] + _RADII[0] * math.cos(turn), _CENTRE[1] + _RADII[1] * math.sin(turn))
        for role, turn in turns.items()
    }


def _link(
    sender: str, to: str, begin: tuple[float, float], end: tuple[float, float], count: int, most: int
) -> GraphLink:
    across, down = end[0] - begin[0], end[1] - begin[1]
    length = math.hypot(across, down)
    along, side = (across / length, down / length), (-down / length, across / length)
    edge = NODE + 4
    from_x, from_y = begin[0] + along[0] * edge + side[0] * 7, begin[1] + along[1] * edge + side[1] * 7
    to_x, to_y = end[0] - along[0] * (edge + 4) + side[0] * 7, end[1] - along[1] * (edge + 4) + side[1] * 7
    bend_x, bend_y = (from_x + to_x) / 2 + side[0] * _APART, (from_y + to_y) / 2 + side[1] * _APART
    path = f"M{from_x:.1f} {from_y:.1f}Q{bend_x:.1f} {bend_y:.1f} {to_x:.1f} {to_y:.1f}"
    x, y = (from_x + to_x) / 4 + bend_x / 2, (from_y + to_y) / 4 + bend_y / 2
    width = 1.0 if not count else 1.5 + 3.5 * count / most
    return GraphLink(sender, to, path, x + side[0] * 9, y + side[1] * 9, count, width, is_last=False)
