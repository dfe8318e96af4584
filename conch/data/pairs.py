"""Pairs of a chosen and a rejected reply to one state. Pure.

Tiers: A the same prompt, B candidates of a fork, C an invalid reply and the valid call in it, D the
same state key.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from conch.actions import Registry, parse
from conch.data.acts import Workshop, decoding_of
from conch.data.near import alike
from conch.data.row import Format, LeftOut, Lineage, Row, Tier, make_row
from conch.experience import Example
from conch_schemas import ForkScored

GROUP: Final = 32
"""Most acts of a state that pairs are made of: 496 pairs are looked at."""


@dataclass(frozen=True)
class ForkedReply:
    """A candidate of a fork: a reply to the recorded prompt of an act, run in a copy of the workspace."""

    text: str
    total: float
    valid: bool
    skill: str = ""
    status: str = ""
    cohort: str = ""
    """What the totals of two candidates have in common where they can be compared, such as the parts scored."""


@dataclass
class StateGroups:
    """Up to GROUP acts of each state: those whose prompt has the least hash, so that acts with the same prompt are in
    together. The same acts give the same groups, whatever their order."""

    _heaps: dict[str, list[tuple[int, int, int, str]]] = field(default_factory=dict)

    def add(self, example: Example) -> str | None:
        """Add an act: the id of the act that is left out for it, which may be its own; None: all have room."""
        decoding = decoding_of(example)
        heap = self._heaps.setdefault(decoding.state_key, [])
        entry = (-_hash(decoding.prompt_sha256), -_hash(example.act.action_id), example.number, example.act.action_id)
        if len(heap) < GROUP:
            heapq.heappush(heap, entry)
            return None
        return heapq.heappushpop(heap, entry)[3]

    def groups(self) -> Iterator[list[int]]:
        """The numbers of the acts of each state, by state key."""
        for state in sorted(self._heaps):
            yield [number for _, _, number, _ in sorted(self._heaps[state], reverse=True)]


def state_pairs(format: Format, group: Sequence[Example], workshop: Workshop) -> Iterator[Row | LeftOut]:
    """Each pair of the acts of one state, in an order of their hashes, those with the same prompt first; at most
    `Selection.per_state` go in."""
    if len(group) < 2:
        yield from (LeftOut("no other act in its state", (one.act.action_id,)) for one in group)
        return
    pairs = sorted(combinations(group, 2), key=_order)
    room = workshop.selection.per_state
    for one, other in pairs:
        chosen, rejected = (one, other) if _merit(one) >= _merit(other) else (other, one)
        answer = _pair(format, chosen, rejected, workshop)
        if isinstance(answer, Row):
            if room == 0:
                answer = LeftOut("as many pairs of its state as go in", answer.action_ids)
            else:
                room -= 1
        yield answer


def repaired_pair(format: Format, example: Example, registry: Registry, workshop: Workshop) -> Row | LeftOut:
    """An invalid reply against the valid call that stands in one of its lines (tier C). The repaired reply was not run:
    its reward is not known."""
    data = example.act.data
    repaired = repair(data.raw, registry)
    if repaired is None:
        return LeftOut("invalid reply", (example.act.action_id,))
    text, skill = repaired
    columns = {
        "prompt": workshop.prompt(example),
        "chosen": workshop.reply(text),
        "rejected": workshop.reply(data.raw),
    }
    lineage: Lineage = {
        **workshop.lineage(example),
        "reward": None,
        "skill": skill,
        "status": "",
        "origin": "repaired",
        "tier": "C",
    }
    return make_row(format, columns, **lineage)


def repair(raw: str, registry: Registry) -> tuple[str, str] | None:
    """(the one valid call among the lines of an invalid reply, its skill); None where there is none, or several."""
    found = {}
    for line in raw.splitlines():
        text = line.strip().strip("`").strip()
        action = parse(text, registry)
        if action.valid and action.kind == "TOOL":
            found[text] = action.skill
    return next(iter(found.items())) if len(found) == 1 else None


def forked_replies(candidates: Iterable[ForkScored]) -> dict[str, list[ForkedReply]]:
    """The candidates of forks by the id of the act whose prompt they answer; one whose reply was not kept whole is left
    out. The totals of two can be compared where the same versions of the same rules scored them, under the same
    weights, and both were decoded freely or both held to a constraint."""
    found: dict[str, list[ForkedReply]] = defaultdict(list)
    for one in candidates:
        if one.action_id is None or len(one.raw) != one.raw_length:
            continue
        scored = sorted(f"{by.scorer}/{by.version}/{by.component}" for by in one.scores if by.status == "scored")
        held = one.decoding is not None and one.decoding.constraint != "free"
        cohort = " ".join((one.weights, one.workspace, str(held), *scored))
        found[one.action_id].append(
            ForkedReply(one.raw, one.total, one.action.valid, one.action.skill, one.outcome.status, cohort)
        )
    return found


def fork_pairs(
    format: Format, example: Example, candidates: Sequence[ForkedReply], workshop: Workshop
) -> Iterator[Row | LeftOut]:
    """Each pair of the candidates of a fork of this act (tier B). Of those with the same reply in one cohort the first
    one counts; a pair that candidates of several cohorts make comes once."""
    ids, there = (example.act.action_id,), set[str]()
    different: dict[tuple[str, str], ForkedReply] = {}
    for one in candidates:
        if different.setdefault((workshop.redact(one.text), one.cohort), one) is not one:
            yield LeftOut("the same candidate is there", ids)
    for one, other in combinations(different.values(), 2):
        chosen, rejected = (one, other) if one.total >= other.total else (other, one)
        margin = chosen.total - rejected.total
        if reason := _unpaired(margin, chosen.text, rejected.text, workshop):
            yield LeftOut(reason, ids)
        elif chosen.cohort != rejected.cohort:
            yield LeftOut("totals of different cohorts", ids)
        elif not chosen.valid or chosen.status == "blocked":
            yield LeftOut("the better one is invalid or blocked", ids)
        elif not rejected.valid:
            yield LeftOut("invalid reply", ids)
        else:
            columns = {
                "prompt": workshop.prompt(example),
                "chosen": workshop.reply(chosen.text),
                "rejected": workshop.reply(rejected.text),
            }
            lineage: Lineage = {
                **workshop.lineage(example),
                "reward": chosen.total,
                "skill": chosen.skill,
                "status": chosen.status,
                "origin": "fork",
                "margin": margin,
                "tier": "B",
            }
            row = make_row(format, columns, **lineage)
            yield LeftOut("the same pair is there", ids) if row.row_id in there else row
            there.add(row.row_id)


def cohort(example: Example) -> tuple[Any, ...]:
    """What the totals of two acts have in common where they can be compared: weight set, decoding free or held to a
    constraint, and the parts that were scored."""
    scored = frozenset(one.component for one in example.verdict.scores if one.status == "scored" and one.weight)
    return example.verdict.weights, decoding_of(example).constraint == "free", scored


def _pair(format: Format, chosen: Example, rejected: Example, workshop: Workshop) -> Row | LeftOut:
    ids = (chosen.act.action_id, rejected.act.action_id)
    margin = chosen.verdict.total - rejected.verdict.total
    if reason := _unpaired(margin, chosen.act.data.raw, rejected.act.data.raw, workshop):
        return LeftOut(reason, ids)
    if cohort(chosen) != cohort(rejected):
        return LeftOut("totals of different cohorts", ids)
    if chosen.act.data.outcome.status == "blocked":
        return LeftOut("the better one is invalid or blocked", ids)
    columns = {
        "prompt": workshop.prompt(chosen),
        "chosen": workshop.reply(chosen.act.data.raw),
        "rejected": workshop.reply(rejected.act.data.raw),
    }
    tier: Tier = "A" if _same_prompt(chosen, rejected) else "D"
    lineage: Lineage = {**workshop.lineage(chosen), "action_ids": ids, "margin": margin, "tier": tier}
    return make_row(format, columns, **lineage)


def _unpaired(margin: float, chosen: str, rejected: str, workshop: Workshop) -> str | None:
    if margin < workshop.selection.margin:
        return "margin too small"
    if alike(chosen, rejected) >= workshop.selection.near:
        return "nearly the same replies"
    return None


def _same_prompt(one: Example, other: Example) -> bool:
    return decoding_of(one).prompt_sha256 == decoding_of(other).prompt_sha256


def _merit(example: Example) -> tuple[float, str]:
    return example.verdict.total, example.act.action_id


def _order(pair: tuple[Example, Example]) -> tuple[bool, int]:
    one, other = pair
    return not _same_prompt(one, other), _hash("".join(sorted((one.act.action_id, other.act.action_id))))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
