"""`conch reward test`: a rule over recorded acts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.common import CommonOptions
from conch.cli.reward.trying import time_words, try_
from conch.errors import CheckError, ContractError, UsageError
from conch_schemas import encode

if TYPE_CHECKING:
    from tests.cli.conftest import Conch, Kept, Life


Printed = Callable[[], str]
HEAD = "from conch import rule\nfrom pydantic import BaseModel\n"
GOOD = HEAD + '@rule(range=(0.0, 5.0))\ndef length(action):\n    """Its cycle."""\n    return action.cycle or None\n'
BAD = {
    "raises": "raise ValueError('no good\\x1b[2J')",
    "exits": "raise SystemExit(3)",
    "outside": "return 7.0",
    "text": "return 'much'",
    "kills": "import os\n    os._exit(7)",
}
FOLD = """
class Sum(BaseModel):
    total: int = 0

@rule(range=(0.0, 1000.0), state=Sum)
def summed(state, action):
    return Sum(total=state.total + action.cycle), state.total + action.cycle

@rule(range=(0.0, 1000.0), window=2)
def pair(actions):
    return sum(action.cycle for action in actions)
"""


@pytest.fixture
def rule(tmp_path: Path) -> Callable[[str], str]:
    """`rule(text)`: a file that holds it."""

    def write(text: str) -> str:
        (tmp_path / "rules.py").write_text(text)
        return str(tmp_path / "rules.py")

    return write


@pytest.fixture
def recording(life: Life, tmp_path: Path) -> Callable[..., Path]:
    """`recording(*cycles)`: a file of acts, half of them as `conch bus tail --json` prints them."""

    def write(*cycles: int) -> Path:
        acts = [json.loads(encode(life.act(cycle))) for cycle in cycles]
        lines = [act if act["cycle"] % 2 else {"seq": 1, "subject": "s", "event": act} for act in acts]
        (tmp_path / "acts.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")
        return tmp_path / "acts.jsonl"

    return write


async def tried(common: CommonOptions, printed: Printed, *arguments: Any, **options: Any) -> list[dict[str, Any]]:
    await try_(*arguments, **options, common=replace(common, json=True))
    rules: list[dict[str, Any]] = json.loads(printed())["rules"]
    return rules


def told(tested: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(one["cycle"], one["value"], one["status"]) for one in tested["scores"]]


async def test_recorded_acts_of_a_file_are_scored(
    rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions, printed: Printed
) -> None:
    """Without a home: each act's score, and what they come to."""
    [tested] = await tried(common, printed, rule(GOOD), replay=recording(0, 1, 2))

    assert told(tested) == [(0, None, "not_applicable"), (1, 1.0, "scored"), (2, 2.0, "scored")]
    figures = [tested[key] for key in ("acts", "scored", "not_applicable", "coverage", "mean", "least", "greatest")]
    assert figures == [3, 2, 1, 1.0, 1.5, 1.0, 2.0]
    assert tested["us"] > 0


async def test_the_last_acts_of_the_home_are_scored(
    filled: Life, rule: Callable[[str], str], common: CommonOptions, printed: Printed
) -> None:
    """From its store, nothing is written anywhere."""
    [all_three] = await tried(common, printed, rule(GOOD))
    [two] = await tried(common, printed, rule(GOOD), limit=2)

    assert [cycle for cycle, *_ in told(all_three)] == [0, 1, 2]
    assert [cycle for cycle, *_ in told(two)] == [1, 2]


async def test_each_act_is_a_line_and_the_rule_a_summary(
    filled: Life, rule: Callable[[str], str], common: CommonOptions, printed: Printed
) -> None:
    """For a person, the docstring once above; what minds and rules wrote is harmless."""
    await try_(rule(GOOD), common=common)

    lines = printed().splitlines()
    assert lines[0] == "length 1: Its cycle."
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert lines[1].endswith("not applicable  the rule says: not applicable")
    assert lines[2].endswith("+1.000")
    assert lines[4].startswith("length 1: 2 of 3 scored, 1 not applicable, 0 errors, 0 timeouts, coverage 100%")
    assert not [line for line in lines if "\x1b" in line]


@pytest.mark.parametrize(
    ("us", "words"),
    [(0.4, "0 µs"), (85.3, "85 µs"), (1_040.0, "1.0 ms"), (45_123.0, "45.1 ms"), (1_500_000.0, "1.5 s")],
)
def test_a_time_has_the_unit_that_suits_it(us: float, words: str) -> None:
    """Microseconds below a thousand, then milliseconds, then seconds."""
    assert time_words(us) == words


async def test_what_a_rule_remembers_comes_from_every_act_before(
    life: Life, kept: Kept, rule: Callable[[str], str], common: CommonOptions, printed: Printed
) -> None:
    """A state from the agent's first act on, a window from the acts before those that are shown."""
    kept(life.weights(), *[fact for cycle in range(6) for fact in life.cycle(cycle)])

    summed, pair = await tried(common, printed, rule(HEAD + FOLD), limit=2)

    assert [value for _, value, _ in told(summed)] == [10.0, 15.0]
    assert [value for _, value, _ in told(pair)] == [7.0, 9.0]


async def test_a_score_that_could_not_be_made_fails_the_test(
    rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions, printed: Printed
) -> None:
    """Whatever a rule does, every act has its line, other rules are scored, and the exit status is 4."""
    bad = "".join(f"@rule()\ndef {how}(action):\n    {body}\n" for how, body in BAD.items())

    with pytest.raises(CheckError, match="2 of 2 scores of raises could not be made: ValueError: no good") as failure:
        await try_(rule(f"{GOOD}{bad}"), replay=recording(1, 2), common=replace(common, json=True))

    good, *tested = json.loads(printed())["rules"]
    assert told(good) == [(1, 1.0, "scored"), (2, 2.0, "scored")]
    assert [one["name"] for one in tested] == list(BAD)
    assert all(told(one) == [(1, None, "error"), (2, None, "error")] for one in tested)
    assert failure.value.exit_code == 4
    assert "\x1b" not in str(failure.value)


def test_what_a_rule_prints_is_no_part_of_the_document(
    rule: Callable[[str], str], recording: Callable[..., Path], conch: Conch
) -> None:
    """Stdout is the JSON alone; what was printed is on stderr, where its author looks for it."""
    file = rule(GOOD.replace("return", "print('I-am-here')\n    return"))

    done = conch("reward", "test", file, "--replay", str(recording(1, 2, 3)), "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "conch.v1.rule_tested"
    assert "I-am-here" in done.stderr


async def test_a_rule_that_takes_too_long_fails_the_test(
    rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions, printed: Printed
) -> None:
    """By its own time."""
    file = rule(f"{HEAD}import time\n@rule(timeout=0.1)\ndef slow(action):\n    time.sleep(60)\n")

    with pytest.raises(CheckError, match=r"1 of 1 scores of slow could not be made: no value within 0.1 s"):
        await try_(file, replay=recording(1), common=common)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"acts.jsonl has no action.taken: conch bus tail"),
        ("\n{", r"acts.jsonl line 2 is no JSON"),
        ("[1]", r"acts.jsonl line 1 is no event"),
        ('{"type": "conch.v1.action.taken"}', r"acts.jsonl line 1 is no event"),
        ("[" * 100_000, r"acts.jsonl line 1 is no JSON"),
    ],
)
async def test_a_recording_that_is_none_is_told_by_its_line(
    text: str, sentence: str, rule: Callable[[str], str], common: CommonOptions, tmp_path: Path
) -> None:
    """And nothing is scored."""
    file = tmp_path / "acts.jsonl"
    file.write_text(text)

    with pytest.raises(UsageError, match=sentence):
        await try_(rule(GOOD), replay=file, common=common)


@pytest.mark.parametrize("name", ["format", "care"])
async def test_a_rule_whose_name_is_taken_is_refused(
    name: str, rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions
) -> None:
    """As a run sets it aside: one of a built-in component, a judge's; by its file and by its name."""
    (common.where().path / "conch.yaml").write_text("rewards: {judges: {care: {rubric: care.txt}}}\n")
    file = rule(GOOD.replace("length", name))

    with pytest.raises(UsageError, match=f"rules.py: the name '{name}' is taken, and conch run would set it aside"):
        await try_(file, replay=recording(1), common=common)
    with pytest.raises(UsageError, match=f"no rule is called '{name}': that name is taken"):
        await try_(name, rules=[Path(file)], replay=recording(1), common=common)


async def test_a_recording_with_more_than_an_event_can_be_is_told_by_its_line(
    life: Life, rule: Callable[[str], str], common: CommonOptions, tmp_path: Path
) -> None:
    """Without reading on, however long the line is; in one sentence."""
    act = json.loads(encode(life.act(1)))
    for length, says in ((600_000, "is no event: .* bytes, more than 524288"), (3_000_000, "is longer than 2,097,152")):
        act["data"]["raw"] = "x" * length
        (tmp_path / "acts.jsonl").write_text(f"{encode(life.act(0)).decode()}\n{json.dumps(act)}\n")
        with pytest.raises(UsageError, match=rf"acts.jsonl line 2 {says}"):
            await try_(rule(GOOD), replay=tmp_path / "acts.jsonl", common=common)

    with pytest.raises(UsageError, match="/dev/zero cannot be read: it is a pipe or a device"):
        await try_(rule(GOOD), replay=Path("/dev/zero"), common=common)


async def test_a_corrupt_line_among_good_ones_is_named(
    rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions
) -> None:
    """A recording that was cut off."""
    file = recording(1, 2)
    file.write_text(file.read_text()[:-40])

    with pytest.raises(UsageError, match=r"acts.jsonl line 3 is no JSON"):
        await try_(rule(GOOD), replay=file, common=common)


async def test_a_rule_is_found_by_name_in_the_files_that_are_named(
    rule: Callable[[str], str], recording: Callable[..., Path], common: CommonOptions, printed: Printed
) -> None:
    """Beside the installed ones; one that is not there is told with the nearest."""
    file = Path(rule(GOOD))

    [tested] = await tried(common, printed, "length", rules=[file], replay=recording(1))
    with pytest.raises(UsageError, match=r"there is no rule 'lenght'; the nearest name is length"):
        await try_("lenght", rules=[file], replay=recording(1), common=common)

    assert tested["origin"] == str(file)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("def f(:", ContractError, "SyntaxError"),
        ("x = 1\n", ContractError, "declares no @rule"),
        ("import os\nos._exit(3)\n", ContractError, "ended its process with status 3"),
    ],
)
async def test_a_file_that_cannot_be_loaded_is_a_sentence(
    text: str,
    kind: Any,
    sentence: str,
    rule: Callable[[str], str],
    recording: Callable[..., Path],
    common: CommonOptions,
) -> None:
    """Which file, and why."""
    with pytest.raises(kind, match=rf"rules.py: .*{sentence}"):
        await try_(rule(text), replay=recording(1), common=common)
