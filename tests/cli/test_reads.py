"""What is read from the store: cycles, needs, rewards, marks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import cycle, mark, need
from conch.cli.common import CommonOptions
from conch.errors import ConchError, StoreError, UsageError
from conch_schemas import Principle, trace_of, traceparent_of

if TYPE_CHECKING:
    from tests.cli.conftest import Kept, Life


Printed = Callable[[], str]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def document(printed: Printed) -> Any:
    text = printed()
    assert text.count("\n") == 1
    return json.loads(text)


def test_cycle_list_is_one_document_of_rows(filled: Life, conch: Command) -> None:
    """`cycle list --json` prints one document and nothing else: the last N cycles, oldest first."""
    result = conch("cycle", "list", "--json", "--limit", "2")

    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["schema"] == "conch.v1.cycles"
    assert [row["cycle"] for row in found["cycles"]] == [1, 2]
    assert {score["component"] for score in found["cycles"][0]["scores"]} >= {"format", "goal", "exploration"}


def test_tables_interpret_nothing_that_a_mind_wrote(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """Escape sequences, markup and line ends of minds and tools stay text in a cell of one line."""
    cycle.list_(common=common)

    lines = printed().splitlines()
    assert len(lines) == 4
    assert "[/nope] [bold]hi[/]" in lines[-1]
    assert "\x1b" not in lines[-1]


def test_the_lines_of_a_cycle_add_up(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`cycle show` lists amounts whose sum is the total it says."""
    cycle.show(1, common=common)

    lines = printed().splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("total"))
    end = next(place for place, line in enumerate(lines) if line.startswith("  sum "))
    amounts = [float(line[26:].split()[0]) for line in lines[at + 1 : end]]
    assert amounts
    assert sum(amounts) == pytest.approx(float(lines[end].split()[1]), abs=1e-3)


def test_no_text_passes_for_a_line_of_the_report(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """A thought that imitates the report is indented behind a bar, after every kind of line end."""
    cycle.show(2, common=common)

    text = printed()
    assert [line for line in text.split("\n") if line.strip().startswith("sum")] == [
        "  sum                      +0.2750  ████████████████"
    ]
    assert "\x1b" not in text
    assert "\u2028" not in text
    assert "| sum                      +9.0000" in text


def test_a_cycle_is_shown_with_its_marks_and_breakdown(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`cycle show --json` is the row of the list and what else is known, with the marks of that cycle only."""
    cycle.show(1, common=replace(common, json=True))

    row = document(printed)["cycle"]
    assert row["cycle"] == 1
    assert sum(line["amount"] for line in row["breakdown"]) == pytest.approx(row["total"])
    assert [mark["sequence"] for mark in row["marks"]] == [2, 3]
    assert row["needs_before"]["curiosity"] == 0.5


def test_a_cycle_is_shown_with_its_trace(
    life: Life, kept: Callable[..., None], common: CommonOptions, printed: Printed
) -> None:
    """By whose id the act is found in other tools and in the logs; an act without one is shown without."""
    before, act = life.act(0), life.act(1)
    act = act.model_copy(update={"traceparent": traceparent_of(act.action_id, act.id)})
    kept(life.weights(), before, act, *life.scores(before), *life.scores(act))
    for number in (0, 1):
        cycle.show(number, common=common)

    told = printed()
    assert told.count("trace") == 1
    assert f"\n  trace {trace_of(act.action_id)}\n" in told

    cycle.show(1, common=replace(common, json=True))
    assert document(printed)["cycle"]["trace_id"] == trace_of(act.action_id)


def test_a_cycle_that_is_not_there_is_a_sentence(filled: Life, common: CommonOptions) -> None:
    """Asked for a cycle that was never recorded, the command says so and fails."""
    with pytest.raises(ConchError, match="no recorded cycle 77 of echo") as failure:
        cycle.show(77, common=common)
    assert failure.value.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["cycle", "list", "--agent", "nobody"], 2, "there is no agent 'nobody' here, but echo"),
        (["cycle", "list", "--limit", "0"], 2, "Must be >= 1"),
        (["cycle", "show", "99"], 2, "there is no recorded cycle 99 of echo"),
        (["mark", "show", "99"], 2, "there is no mark 99"),
        (["need", "history", "joy"], 2, "conch need history takes no 'joy': conch need history --help shows"),
        (["goal", "add", " ", "--tests", "true"], 2, "a goal needs a statement"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_its_code(
    filled: Life, conch: Command, arguments: list[str], code: int, sentence: str
) -> None:
    """A wrong option and a thing that is not there are exit status 2; stderr has one line, stdout nothing."""
    result = conch(*arguments)

    assert (result.returncode, result.stdout) == (code, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_experiences_it_says_how_to_make_some(common: CommonOptions) -> None:
    """A home without a store is told apart from no home at all."""
    with pytest.raises(StoreError, match="conch run makes some"):
        cycle.list_(common=common)
    with pytest.raises(UsageError, match="there is no home"):
        cycle.list_(common=CommonOptions(home=common.where().path / "elsewhere"))


def test_needs_are_listed_with_the_one_that_presses(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`need list` has the last known levels; needs that the settings do not name are left out."""
    need.list_(common=replace(common, json=True))

    rows = {row["need"]: row for row in document(printed)["needs"]}
    assert rows["curiosity"]["satisfaction"] == 0.65
    assert rows["reliability"]["satisfaction"] == 0.7
    assert [name for name, row in rows.items() if row["most"]] == ["excellence"]


def test_needs_of_a_new_home_are_those_it_is_born_with(common: CommonOptions, printed: Printed) -> None:
    """Before the first cycle `need list` shows where the needs start."""
    need.list_(common=replace(common, json=True))

    assert {row["need"]: row["satisfaction"] for row in document(printed)["needs"]}["curiosity"] == 0.5


def test_need_history_says_what_changed_and_why(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`need history` has a row a change, oldest first, the reasons in one line."""
    need.history(limit=2, common=replace(common, json=True))
    rows = document(printed)["changes"]
    need.history(limit=1, common=common)

    assert [row["cycle"] for row in rows] == [1, 2]
    assert rows[0]["after"]["curiosity"] == 0.65
    assert "\x1b" not in (table := printed())
    assert len(table.splitlines()) == 2


def test_marks_are_listed_from_the_end_of_the_chain(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`mark list --limit N` has the last N marks in the order of the chain."""
    mark.list_(limit=3, common=replace(common, json=True))

    assert [one["sequence"] for one in document(printed)["marks"]] == [3, 4, 5]


def test_a_mark_is_shown_in_words(life: Life, kept: Kept, common: CommonOptions, printed: Printed) -> None:
    """Its principles by name with what they come to, its links by what they mean."""
    fact = life.scores(life.act(0))[0]
    principles = tuple(Principle(name=name, score=score) for name, score in (("ethical", 0.4), ("tasteful", 1.0)))
    act = life.act(0)
    kept(
        life.weights(),
        act,
        life.mark(act),
        scored := fact.model_copy(update={"principles": principles}),
        life.judged(act, [scored]),
    )
    mark.show(1, common=common)

    text = printed()
    assert "\nprinciples ethical 0.4, tasteful 1\ntotal      7.50 of 8.70, good, violates ethical\n" in text
    assert "relation CAUSES\n" in text
    assert "{" not in text


def test_a_mark_is_shown_whole_and_harmless(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """`mark show N` prints every field in a line of its own."""
    mark.show(4, common=common)

    text = printed()
    assert text.startswith("id ")
    assert "\nsequence   4\n" in text
    assert "\x1b" not in text
