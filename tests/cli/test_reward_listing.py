"""`conch reward list` and `show`: what there is to be earned, and how it goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.common import CommonOptions
from conch.cli.reward.listing import list_, show
from conch.config import BUILTIN_COMPONENTS
from conch.consumer import follow
from conch.consumer.group.lag import report_position
from conch.errors import ConchError
from conch.views import BUILTIN_MEANINGS
from conch_schemas import ActionTaken, Part, RewardAssigned, Score
from tests.cli.conftest import Kept, Life

if TYPE_CHECKING:
    from conch.home import Home
    from tests.cli.conftest import InProgress, Publish


Printed = Callable[[], str]


def scored(life: Any, cycle: int, value: float | None, version: str = "1") -> RewardAssigned:
    status: Any = "scored" if value is not None else "error"
    score = Score(
        component="brevity", value=value, range=(0, 1), status=status, explanation=f"cycle {cycle}\x1b[2J",
        scorer="brevity", version=version,
    )  # fmt: skip
    cause = life.act(cycle)
    return follow(cause, RewardAssigned, consumer="rule-brevity", version=version, scorer="brevity", scores=(score,))


@pytest.fixture
def ruled(life: Life, kept: Kept) -> Life:
    """Three cycles with a rule of one's own, which failed at the last; a weight set before and one after them."""
    old = life.weights()
    brevity = Part(component="brevity", weight=0.0, range=(0, 1), scorer="brevity")
    held = Part(component="truth", weight=0.0, range=(0, 1), scorer="judge-truth", role="held_out")
    first = old.model_copy(update={"id": "w1", "version": "first", "parts": (*old.parts, brevity), "why": "conch run"})
    paid = brevity.model_copy(update={"weight": 0.3})
    more = {
        "id": "w2",
        "version": "second",
        "parts": (*old.parts[1:], paid, held),
        "why": "conch reward weights\x1b[2J",
    }
    scores = [scored(life, 0, 0.5), scored(life, 1, 1.0), scored(life, 1, 0.75, "2"), scored(life, 2, None)]
    cycles = [fact for cycle in range(3) for fact in life.cycle(cycle)]
    kept(first, *cycles, *scores, old.model_copy(update=more))
    return life


async def listed(common: CommonOptions, printed: Printed) -> dict[str, Any]:
    await list_(common=replace(common, json=True))
    return {row["component"]: row for row in json.loads(printed())["rewards"]}


async def test_each_component_of_the_set_in_force_is_listed_the_heaviest_first(
    ruled: Life, common: CommonOptions, printed: Printed
) -> None:
    """With its weight now, role, range, version, coverage and errors; what left the set is told as such."""
    rows = await listed(common, printed)

    assert list(rows)[:2] == ["brevity", "execution"]
    brevity = rows["brevity"]
    told = [brevity[key] for key in ("weight", "role", "range", "version", "scored", "errors", "mean")]
    assert told == [0.3, "paid", [0, 1], "1", 2, 1, 0.625]
    assert brevity["coverage"] == pytest.approx(2 / 3)
    assert (rows["truth"]["role"], rows["truth"]["count"], rows["truth"]["mean"]) == ("held out", 0, None)
    assert (rows["format"]["role"], rows["format"]["weight"], rows["format"]["mean"]) == ("dropped", 0.0, 0.5)
    assert brevity["lag"] is None


async def test_the_lag_of_each_scorer_is_listed_where_there_is_a_bus(
    ruled: Life,
    common: CommonOptions,
    printed: Printed,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """Of a rule its consumer's, of a service the service's."""
    async with in_progress() as bus:
        await publish(bus, ruled.act(3), ruled.act(4))
        await report_position(bus, "rule-brevity", [ActionTaken], 1)
        await report_position(bus, "reward", [ActionTaken], 0)

        rows = await listed(common, printed)

    assert [rows[name]["lag"] for name in ("brevity", "execution", "needs")] == [1, 2, None]


async def test_the_table_fits_a_screen_and_is_harmless(ruled: Life, common: CommonOptions, printed: Printed) -> None:
    """A line a component, of eighty characters at most."""
    await list_(common=common)

    lines = printed().splitlines()
    assert max(map(len, lines)) <= 80
    assert next(line for line in lines if line.startswith("truth")).split()[1:3] == ["held", "out"]
    assert next(line for line in lines if line.startswith("brevity")).split()[1:5] == ["0.300", "0..1", "1", "67%"]
    assert "the figures of brevity are of 2 of 3 acts" in lines
    assert not any(line.startswith("the figures of exploration") for line in lines)


async def test_a_component_is_shown_with_its_weights_versions_and_last_scores(
    ruled: Life, common: CommonOptions, printed: Printed
) -> None:
    """The newest weight set first, every version that scored, scores with their explanations."""
    await show("brevity", common=replace(common, json=True))

    row = json.loads(printed())["reward"]
    assert [(one["version"], one["weight"]) for one in row["history"]] == [("second", 0.3), ("first", 0.0)]
    assert [(one["version"], one["count"]) for one in row["versions"]] == [("1", 3), ("2", 1)]
    told = [(one["cycle"], one["value"], one["status"], one["version"]) for one in row["scores"]]
    assert told == [
        (0, 0.5, "scored", "1"),
        (1, 1.0, "scored", "1"),
        (1, 0.75, "scored", "2"),
        (2, None, "error", "1"),
    ]
    assert row["scores"][0]["explanation"].startswith("cycle 0")
    assert row["origin"] is None


async def test_show_is_harmless(ruled: Life, common: CommonOptions, printed: Printed) -> None:
    """Explanations and reasons are hostile text."""
    await show("brevity", common=common)

    text = printed()
    assert text.startswith("brevity · weight 0.300 · range 0..1 · version 1 · scored by brevity\n")
    assert "\x1b" not in text


async def test_where_a_component_comes_from(ruled: Life, common: CommonOptions, printed: Printed, home: Home) -> None:
    """Conch itself, conch.yaml, or the file of a rule that the run in progress has."""
    home.config_file.write_text("rewards: {judges: {truth: {rubric: truth.txt}}}\n")
    origins = {}
    for name in ("goal", "truth"):
        await show(name, common=replace(common, json=True))
        origins[name] = json.loads(printed())["reward"]["origin"]

    assert origins == {"goal": "Conch", "truth": "rewards.judges.truth"}


async def test_the_file_of_a_running_rule_and_its_words_are_shown(
    ruled: Life,
    common: CommonOptions,
    printed: Printed,
    home: Home,
    in_progress: InProgress,
) -> None:
    """As the run in progress found it."""
    async with in_progress():
        run = json.loads(home.run_file.read_text())
        rules = [{"name": "brevity", "origin": "/rules/brevity.py", "doc": "Short is good."}]
        home.run_file.write_text(json.dumps(run | {"rules": rules}))

        await show("brevity", common=common)

    assert "  Short is good.\n  from /rules/brevity.py\n" in printed()


async def test_a_component_that_is_not_there_is_a_sentence(ruled: Life, common: CommonOptions) -> None:
    """With the nearest name that there is."""
    with pytest.raises(ConchError, match="nothing called 'brevty' is scored here; the nearest name is brevity"):
        await show("brevty", common=common)


def test_every_component_that_comes_with_conch_says_what_it_pays() -> None:
    """None is left out, none is invented."""
    assert set(BUILTIN_MEANINGS) == set(BUILTIN_COMPONENTS)


async def test_an_agent_without_weights_or_scores_is_listed_at_nought(
    life: Life, kept: Callable[..., None], common: CommonOptions, printed: Printed
) -> None:
    """A component that nobody has scored yet has a line without figures."""
    kept(life.weights(), life.act(0))

    rows = await listed(common, printed)

    assert {row["count"] for row in rows.values()} == {0}
    assert {row["coverage"] for row in rows.values()} == {None}


def said_by(life: Any, cycle: int, component: str, scorer: str, limits: tuple[float, float] = (-1, 1)) -> Any:
    """A score of somebody whom no weight set expects."""
    score = Score(component=component, value=0.5, range=limits, status="scored", scorer=scorer, version="1")
    return follow(
        life.act(cycle), RewardAssigned, consumer=f"{scorer}-{component}", version="1", scorer=scorer, scores=(score,)
    )


async def test_what_was_never_in_a_set_is_told_from_what_left_it(
    ruled: Life, kept: Callable[..., None], common: CommonOptions, printed: Printed
) -> None:
    """By a word each, which is explained below the table where it is used."""
    await list_(common=common)
    before = printed()
    kept(said_by(ruled, 1, "kindness", "human"))
    await list_(common=common)
    after = printed()

    assert before.splitlines()[-1] == "dropped: in an earlier weight set, not in the one in force"
    assert "beside" not in before
    assert after.splitlines()[-1] == "beside: in no weight set so far, it bears on no total"
    words = {line.split()[0]: line.split()[1] for line in after.splitlines()}
    assert (words["format"], words["kindness"]) == ("dropped", "beside")


async def test_the_last_scores_are_those_of_the_component(
    life: Life, kept: Callable[..., None], common: CommonOptions, printed: Printed
) -> None:
    """However long ago they were said; the range is that of the scores where no part says one."""
    kept(life.weights(), *(life.act(cycle) for cycle in range(100)))
    kept(*(said_by(life, cycle, "tone", "tone", (0, cycle)) for cycle in (2, 3, 40)))

    shown = {}
    for limit in (1, 2, 10, 1000):
        await show("tone", limit=limit, common=replace(common, json=True))
        shown[limit] = json.loads(printed())["reward"]

    assert [[one["cycle"] for one in row["scores"]] for row in shown.values()] == [
        [40],
        [3, 40],
        [2, 3, 40],
        [2, 3, 40],
    ]
    assert (shown[10]["range"], shown[10]["version"]) == ([0, 40], "1")


async def test_who_says_a_component_that_no_rule_is_known_of(
    life: Life, kept: Callable[..., None], common: CommonOptions, printed: Printed, home: Home
) -> None:
    """People, a program that conch.yaml names, or a rule that scored the past alone."""
    home.config_file.write_text("rewards: {parts: {kind: {scorer: ivy}, fair: {scorer: human}}}\n")
    people, outside = "  Said by people (conch reward score).", "  Scored outside by ivy."
    alone = "  from a rule that no run has had (conch reward backfill scored the past with it), or a program outside"
    told = {
        ("kind", "ivy"): [outside, "  from rewards.parts.kind"],
        ("fair", "human"): [people, "  from rewards.parts.fair"],
        ("dear", "human"): [people],
        ("tone", "tone"): [alone],
    }
    kept(life.weights(), *life.cycle(0), *(said_by(life, 0, *who) for who in told))

    for (name, _), lines in told.items():
        await show(name, common=common)
        shown = printed().splitlines()
        assert shown[1 : len(lines) + 1] == lines
        assert shown[len(lines) + 1].startswith("of the last 1 experiences")
