"""`conch reward weights`: what each part counts, and changing it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.common import CommonOptions, open_bus
from conch.cli.reward.weights import weights
from conch.config import Settings
from conch.consumer.parts import expected_parts, report_weights, weights_in_force
from conch.consumer.plugins.discover import Discovery, discover, rules_of
from conch.errors import ConfigError, UsageError
from conch.home import Home

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress


Printed = Callable[[], str]
SWAP = ["format=0.25", "goal=0.2"]
RULE = """from conch import rule

@rule(weight=0.2)
def brevity(action):
    return 1.0
"""


def by_name(parts: Any) -> dict[str, float]:
    return {part.component: part.weight for part in parts}


async def in_force(home: Home, agent: str = "echo") -> Any:
    async with open_bus(home, Settings()) as bus:
        [(_, event)] = await weights_in_force(bus, [agent])
    return event


@pytest.fixture
async def began(home: Home) -> Home:
    """A home whose agents `echo` and `other` have had a run."""
    agents = {name: home.agentuid(name) for name in ("echo", "other")}
    async with open_bus(home, Settings()) as bus:
        await report_weights(bus, agents, expected_parts(Settings(), Discovery()), "conch run")
    return home


async def test_without_a_run_a_change_stands_on_the_stream_and_in_the_file(
    began: Home, common: CommonOptions, printed: Printed
) -> None:
    """Of every agent; the next run finds the same set in force and says nothing."""
    began.config_file.write_text("seed: 7  # mine\n")

    await weights(set_=SWAP, common=common)

    event = await in_force(began)
    assert by_name(event.parts)["format"] == 0.25
    assert by_name(event.parts)["goal"] == 0.2
    assert event.why == "conch reward weights --set format=0.25 goal=0.2"
    assert (await in_force(began, "other")).version == event.version
    assert began.config_file.read_text().startswith("seed: 7  # mine\nrewards:\n  weights:\n    format: 0.25\n")
    settings = common.settings()
    async with open_bus(began, settings) as bus:
        assert await report_weights(bus, began.agents(), expected_parts(settings, Discovery()), "conch run") == ()
    assert f"weight set {event.version} is in force for echo, other, and in {began.config_file}" in printed()


async def test_during_a_run_a_change_is_in_force_at_once(
    home: Home, common: CommonOptions, printed: Printed, in_progress: InProgress
) -> None:
    """The set that the run began with is replaced on its bus; a rule of the run keeps its weight."""
    row = {"kind": "rule", "name": "brevity", "origin": "b.py", "version": "1", "weight": 0.2, "low": -1.0, "high": 1.0}
    async with in_progress() as bus:
        state = json.loads(home.run_file.read_text())
        home.run_file.write_text(json.dumps(state | {"rules": [row]}))
        settings, agents = Settings(), {"echo": home.agentuid("echo")}
        await report_weights(bus, agents, expected_parts(settings, Discovery(rules_of([row]))), "conch run")

        await weights(set_=["format=0.2", "goal=0.16"], common=replace(common, json=True))

        [(_, event)] = await weights_in_force(bus, ["echo"])
    told = json.loads(printed())
    assert (told["version"], told["agents"]) == (event.version, ["echo"])
    found = {part.component: part for part in event.parts}
    assert (found["format"].weight, found["goal"].weight, found["brevity"].weight) == (0.2, 0.16, 0.2)
    assert found["brevity"].range == (-1.0, 1.0)


@pytest.mark.parametrize(("swap", "is_said"), [(SWAP, True), (["progress=0.1", "format=0.2"], False)])
async def test_a_table_that_leaves_out_progress_says_so(
    began: Home, common: CommonOptions, capsys: pytest.CaptureFixture[str], swap: list[str], is_said: bool
) -> None:
    """The first table ends its share of tasks, unless it names it; a second table says nothing anew."""
    await weights(set_=swap, common=common)
    first = capsys.readouterr().err
    await weights(set_=["needs=0.15", "exploration=0.15"], common=common)

    assert ("progress is not paid in tasks any more" in first) == is_said
    assert "progress" not in capsys.readouterr().err


async def test_a_reset_gives_every_part_what_it_asks_for(began: Home, common: CommonOptions, printed: Printed) -> None:
    """The table is taken out of the file, and the built-in weights are in force again."""
    await weights(set_=SWAP, common=common)
    printed()
    await weights(reset=True, common=common)

    assert printed().endswith(f"and the table rewards.weights was taken out of {began.config_file}\n")
    assert by_name((await in_force(began)).parts) == by_name(expected_parts(Settings(), Discovery()))
    assert common.settings().rewards.weights is None
    await weights(reset=True, common=common)
    assert printed().endswith(f"is in force already, and {began.config_file} has no table of weights\n")


async def test_one_agent_of_several_is_changed_until_the_next_start(
    began: Home, common: CommonOptions, printed: Printed
) -> None:
    """conch.yaml is for all of them: it stays as it is."""
    await weights(set_=SWAP, agent="other", common=common)

    assert by_name((await in_force(began, "other")).parts)["goal"] == 0.2
    assert by_name((await in_force(began)).parts)["goal"] == 0.15
    assert not began.config_file.exists()
    assert "until the next start" in printed()


async def test_a_rule_that_is_to_come_is_given_its_weight_before_the_run(
    began: Home, common: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """--rules names its file; the others keep what the next run would give them."""
    file = tmp_path / "brevity.py"
    file.write_text(RULE)

    await weights(set_=["brevity=0.1", "format=0.34"], rules=[file], common=common)

    parts = by_name((await in_force(began)).parts)
    assert (parts["brevity"], parts["format"], parts["execution"]) == (0.1, 0.34, 0.2)


async def test_what_is_in_force_is_shown_with_its_sum(began: Home, common: CommonOptions, printed: Printed) -> None:
    """Once for the agents that share it; of an agent that never ran, what its first run begins with."""
    await weights(common=common)

    lines = printed().splitlines()
    assert lines[0].endswith("UTC, by conch run")
    assert " of echo, other since " in lines[0]
    assert lines[-1].split() == ["sum", "1.000"]


async def test_a_home_that_never_ran_shows_what_it_begins_with(
    home: Home, common: CommonOptions, printed: Printed
) -> None:
    """And may be given other weights for its first run."""
    await weights(common=common)
    before = printed()
    await weights(set_=SWAP, common=common)

    assert "from the first run on" in before
    assert common.settings().rewards.weights is not None
    assert "in force from the first run on" in printed()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["format=0.6", "goal=0.6"], r"would sum to 1.2, 0.2 too much: format 0.6, goal 0.6"),
        (
            ["format=0.2", "execution=0.2", "needs=0.2", "goal=0.2", "exploration=0.1"],
            r"would sum to 0.9, 0.1 is missing, and no other part has a weight: format 0.2, execution 0.2",
        ),
        (["fromat=0.3"], r"--set fromat: nothing scores it that can be paid; the nearest name is format"),
        (
            ["zzz=0.3"],
            r"can be paid; there is alignment, execution, exploration, format, goal, intrinsic, needs, ",
        ),
        (["tone=0.3"], r"what a program of yours scores is declared under rewards.parts in conch.yaml"),
        (["ethical=0.3"], r"--set ethical: ethical is a gate: it bears on the total without a weight"),
        (["diversity=0.3"], r"diversity is a boost: it bears"),
        (["repetition=0.3"], r"repetition is a penalty: it bears"),
        (["format"], r"--set format: write NAME=WEIGHT"),
        (["format=1.5"], r"a weight is 0 to 1"),
        (["format=nan"], r"a weight is 0 to 1"),
        (["format=0.3", "format=0.2"], r"names format twice"),
    ],
)
async def test_weights_that_cannot_be_change_nothing(
    began: Home, common: CommonOptions, given: list[str], sentence: str
) -> None:
    """One sentence says why."""
    before = (await in_force(began)).version

    with pytest.raises(UsageError, match=sentence):
        await weights(set_=given, common=common)

    assert (await in_force(began)).version == before
    assert not began.config_file.exists()


@pytest.mark.parametrize(
    ("given", "factor"),
    [(["format=0.05"], 0.95 / 0.7), (["format=0.5"], 0.5 / 0.7), (["format=0"], 1 / 0.7), (["format=1"], 0.0)],
)
async def test_one_weight_alone_rescales_the_others(
    began: Home, common: CommonOptions, printed: Printed, given: list[str], factor: float
) -> None:
    """In proportion, as a part that is added does: they keep their multiples of each other, and that is said."""
    before = by_name((await in_force(began)).parts)

    await weights(set_=given, common=common)

    event = await in_force(began)
    after = by_name(event.parts)
    weight = float(given[0].partition("=")[2])
    others = {name: value * factor for name, value in before.items() if name != "format"}
    assert {name: value for name, value in after.items() if value} == pytest.approx(
        {name: value for name, value in ({"format": weight} | others).items() if value}
    )
    said = f"all other weights × {factor:.4g}, so that the sum is 1"
    assert said in printed()
    assert event.why == f"conch reward weights --set {given[0]} ({said})"


async def test_a_new_part_alone_takes_its_weight_from_the_others(
    began: Home, common: CommonOptions, tmp_path: Path
) -> None:
    """Of a rule that the table did not name yet."""
    file = tmp_path / "brevity.py"
    file.write_text(RULE)
    await weights(set_=["brevity=0.2"], rules=[file], common=common)

    await weights(set_=["brevity=0.05"], rules=[file], common=common)

    parts = by_name((await in_force(began)).parts)
    assert parts["brevity"] == 0.05
    assert parts["format"] == pytest.approx(0.3 * 0.95)
    assert sum(parts.values()) == pytest.approx(1.0)


async def test_weights_that_sum_to_one_leave_the_others_as_they_are(
    began: Home, common: CommonOptions, printed: Printed
) -> None:
    """Nothing is rescaled, and nothing is said of it."""
    await weights(set_=["format=0.2", "goal=0.25"], common=common)

    assert "×" not in printed()
    assert by_name((await in_force(began)).parts)["execution"] == 0.25


async def test_a_rule_that_is_not_found_any_more_is_told_from_an_unknown_name(
    home: Home, common: CommonOptions, tmp_path: Path
) -> None:
    """It stands in the set in force, of a run with --rules that has ended: its file is asked for, which then helps."""
    file = tmp_path / "brevity.py"
    file.write_text(RULE)
    agents = {"echo": home.agentuid("echo")}
    async with open_bus(home, Settings()) as bus:
        await report_weights(bus, agents, expected_parts(Settings(), discover([str(file)])), "conch run")

    given = ["brevity=0.05", "format=0.35"]
    says = "brevity has a weight, but nothing here scores it now: name its file with --rules, or set it to 0"
    with pytest.raises(UsageError, match=says):
        await weights(set_=given, common=common)
    await weights(set_=given, rules=[file], common=common)


async def test_a_weight_whose_rule_is_not_there_stays_in_the_table(
    began: Home, common: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """The others have their share beside it, in the file and in force; set to 0 it leaves its share to them."""
    file = tmp_path / "brevity.py"
    file.write_text(RULE)
    await weights(set_=["brevity=0.1", "format=0.34"], rules=[file], common=common)
    printed()

    await weights(set_=["format=0.24", "goal=0.22"], common=common)
    kept = common.settings().rewards.weights
    assert kept is not None
    assert (kept["brevity"], kept["format"], kept["goal"]) == (0.1, 0.24, 0.22)
    assert by_name((await in_force(began)).parts)["format"] == pytest.approx(0.24 / 0.9)
    await weights(set_=["brevity=0"], common=common)

    assert common.settings().rewards.weights == pytest.approx(
        {name: weight / 0.9 for name, weight in kept.items() if name != "brevity"} | {"brevity": 0.0}
    )
    assert by_name((await in_force(began)).parts)["format"] == pytest.approx(0.24 / 0.9)


async def test_what_is_held_out_is_not_among_what_can_be_paid(began: Home, common: CommonOptions) -> None:
    """Nor is a gate that is turned off one that bears on the total."""
    began.config_file.write_text(
        "constitution: {gate: false}\n"
        "rewards: {parts: {truth: {held_out: true}, kind: {}}, judges: {tact: {rubric: r.txt, held_out: true}}}\n"
    )

    with pytest.raises(UsageError, match=r"there is alignment, .*intrinsic, kind, needs, progress \("):
        await weights(set_=["zzz=0.1"], common=common)
    with pytest.raises(UsageError, match=r"with constitution\.gate off it is watched, it takes no weight"):
        await weights(set_=["ethical=0.1"], common=common)


async def test_a_held_out_part_is_not_paid(began: Home, common: CommonOptions) -> None:
    """It would be trained on."""
    began.config_file.write_text("rewards: {parts: {truth: {held_out: true}}}\n")

    with pytest.raises(ConfigError, match="truth is held out: its weight must be 0"):
        await weights(set_=["truth=0.1", "format=0.2"], common=common)


async def test_weights_that_another_source_settles_are_left_alone(
    began: Home, common: CommonOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The environment, or a file that is named, would hide what is written into the home's."""
    other = tmp_path / "other.yaml"
    other.write_text("seed: 1\n")
    with pytest.raises(ConfigError, match=r"the settings are those of .*other.yaml: change rewards.weights there"):
        await weights(set_=SWAP, common=replace(common, config=other))
    table = "{format: 0.3, execution: 0.25, needs: 0.2, goal: 0.15, exploration: 0.1}"
    monkeypatch.setenv("CONCH_REWARDS__WEIGHTS", table)
    with pytest.raises(ConfigError, match="environment CONCH_REWARDS__WEIGHTS settles the weights"):
        await weights(set_=SWAP, common=common)

    assert not began.config_file.exists()


async def test_a_run_with_a_file_of_its_own_is_left_alone(
    home: Home, common: CommonOptions, in_progress: InProgress
) -> None:
    """What is written into the home's would not be what its next start reads."""
    async with in_progress():
        state = json.loads(home.run_file.read_text())
        home.run_file.write_text(json.dumps(state | {"config": "/etc/conch.yaml"}))

        with pytest.raises(ConfigError, match=r"the run in progress has its settings from /etc/conch.yaml"):
            await weights(set_=SWAP, common=common)

    assert not home.config_file.exists()


async def test_a_table_that_lacks_a_new_rule_says_how_to_go_on(
    began: Home, common: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """What `conch run` would say of it; then --set takes it in, at no weight where none is given."""
    await weights(set_=SWAP, common=common)
    file = tmp_path / "brevity.py"
    file.write_text(RULE)

    with pytest.raises(ConfigError, match=r"it lacks brevity: give a weight there .* conch reward weights --reset"):
        expected_parts(common.settings(), discover([str(file)]))
    await weights(set_=["brevity=0.05", "goal=0.15"], rules=[file], common=common)

    assert by_name((await in_force(began)).parts)["brevity"] == 0.05
