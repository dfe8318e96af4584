"""`conch reward compare`: what two rules made of the same acts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conch.cli.common import CommonOptions
from conch.cli.reward.compare import compare
from conch.consumer import follow
from conch.errors import UsageError
from conch_schemas import ActionTaken, RewardAssigned, Score
from tests.cli.conftest import Kept, Life

Printed = Callable[[], str]


def scored(act: Any, name: str, value: float | None, version: str = "1", scorer: str = "", why: str = "") -> Any:
    """What a rule said of an act; no value: an error."""
    score = Score(
        component=name,
        value=value,
        range=(-1, 1),
        status="error" if value is None else "scored",
        explanation=why,
        scorer=scorer or name,
        version=version,
    )
    return follow(
        act, RewardAssigned, consumer=f"x-{scorer}{name}", version=version, scorer=score.scorer, scores=(score,)
    )


@pytest.fixture
def both(life: Life, kept: Kept) -> list[ActionTaken]:
    """Six acts that `tone` and `calm` scored: alike but in cycle 3, and one each left out."""
    acts = [life.act(cycle) for cycle in range(6)]
    facts = [life.weights(), *acts]
    for cycle, act in enumerate(acts):
        facts.append(scored(act, "tone", cycle / 10, why=f"tone of {cycle}") if cycle else scored(act, "tone", None))
        if cycle < 5:
            facts.append(scored(act, "calm", -0.9 if cycle == 3 else cycle / 10, why=f"calm of {cycle} \x1b[2J"))
    kept(*facts)
    return acts


def told(printed: Printed, common: CommonOptions, *names: str, **options: Any) -> dict[str, Any]:
    """What it says as JSON."""
    compare(*names, common=replace(common, json=True), **options)
    found: dict[str, Any] = json.loads(printed())
    return found


@pytest.mark.usefixtures("both")
def test_the_acts_that_both_scored_are_compared(common: CommonOptions, printed: Printed) -> None:
    """Count, agreement, rank correlation, coverage; and the cycle where they differ, with both reasons."""
    found = told(printed, common, "tone", "calm")

    assert found["count"] == 4
    assert (found["equal"], found["same_sign"]) == (0.75, 0.75)
    assert found["rank_correlation"] == pytest.approx(0.4)
    assert found["mean_difference"] == pytest.approx(-0.3)
    assert (found["a"]["coverage"], found["b"]["coverage"]) == (pytest.approx(5 / 6), 1.0)
    [apart] = found["apart"]
    assert (apart["cycle"], apart["a"]["value"], apart["b"]["value"]) == (3, 0.3, -0.9)
    assert (apart["a"]["explanation"], apart["b"]["explanation"]) == ("tone of 3", "calm of 3 \x1b[2J")


@pytest.mark.usefixtures("both")
def test_what_is_shown_to_people_is_safe(common: CommonOptions, printed: Printed) -> None:
    """No escape sequence of a rule's words reaches the terminal."""
    compare("tone", "calm", common=common)

    shown = printed()
    assert "scored by both: 4" in shown
    assert "calm of 3" in shown
    assert "\x1b" not in shown


@pytest.mark.usefixtures("both")
def test_from_a_cycle_on(common: CommonOptions, printed: Printed) -> None:
    """--since leaves out what came before; two acts have no rank correlation, and that is said."""
    found = told(printed, common, "tone", "calm", since_="3")

    assert found["count"] == 2
    assert found["rank_correlation"] is None
    assert found["why_none"] == "2 scored by both, it takes 3"


def test_versions_are_told_apart_and_the_newest_of_each_act_counts(
    both: list[ActionTaken], kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """`tone@1` beside `tone@10`; `tone` alone is of each act the one that counts, 10 before 9 and 1."""
    kept(*(scored(act, "tone", 0.9, version="10") for act in both[:2]), scored(both[0], "tone", 0.1, version="9"))

    versions = told(printed, common, "tone@1", "tone@10")
    newest = told(printed, common, "tone", "tone@10")

    assert [row["cycle"] for row in versions["apart"]] == [1]
    assert newest["count"] == 2
    assert newest["equal"] == 1.0


def test_a_version_names_all_of_its_builds(
    both: list[ActionTaken], kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """`kind@1` is `1+f0` and `1+07`, of an act that has both the last said; a build is named whole."""
    said = [(0, 0.1, "1+f0"), (0, 0.3, "1+07"), (1, 0.2, "1+f0"), (1, 0.8, "2+00"), (0, 0.9, "10+aa")]
    kept(*(scored(both[cycle], "kind", value, version=version) for cycle, value, version in said))

    builds = told(printed, common, "kind@1", "kind@1+f0")
    versions = told(printed, common, "kind@2", "kind@1")
    counts = told(printed, common, "kind", "kind@10")

    assert (builds["a"]["said"], builds["b"]["said"], builds["count"]) == (2, 2, 2)
    assert [(row["cycle"], row["a"]["value"], row["b"]["value"]) for row in builds["apart"]] == [(0, 0.3, 0.1)]
    assert [(row["cycle"], row["a"]["value"], row["b"]["version"]) for row in versions["apart"]] == [(1, 0.8, "1+f0")]
    assert (counts["count"], counts["equal"]) == (1, 1.0)
    with pytest.raises(UsageError, match=r"no scores of version '1\+f': the newest are 1\+07, 1\+f0, 2\+00, 10\+aa"):
        compare("kind@1+f", "kind", common=common)


@pytest.mark.usefixtures("both")
def test_what_cannot_be_compared_is_said(both: list[ActionTaken], kept: Kept, common: CommonOptions) -> None:
    """An unknown name with the nearest, a version that is not there, a component that several score."""
    kept(*(scored(both[0], "kind", 0.5, scorer=scorer) for scorer in ("human", "judge-kind")))

    with pytest.raises(UsageError, match="nothing was scored by 'clam'; the nearest name is calm"):
        compare("tone@1", "clam", common=common)
    with pytest.raises(UsageError, match="has no scores of version '7': the newest are 1"):
        compare("calm@7", "calm", common=common)
    with pytest.raises(UsageError, match="kind is said in 2 ways: name one of human/kind, judge-kind/kind"):
        compare("kind", "calm", common=common)


def test_a_person_is_compared_with_a_rule(
    both: list[ActionTaken], kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """By SCORER/NAME, or the scorer alone where it scores one thing; a rule's own name is the rule's."""
    kept(scored(both[1], "tone", 0.5, scorer="human"))

    found = told(printed, common, "human", "tone")

    assert (found["a"]["scorer"], found["a"]["component"], found["count"]) == ("human", "tone", 1)
    assert found["b"]["scorer"] == "tone"
    assert told(printed, common, "human/tone", "calm")["a"]["scorer"] == "human"
