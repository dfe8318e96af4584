"""What the screen of `conch watch` is drawn from: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli.watch import drawing, picture
from conch.cli.watch.picture import AgentPicture, CycleRowModel, WatchPicture, means
from conch.experience import SqliteReader
from conch.training import lineage_of
from conch_schemas import ExperienceRecorded, NeedsChanged
from tests.training.lives import STEPS, LineageLife, digest_of

if TYPE_CHECKING:
    from tests.cli.conftest import Life


def _row(cycle: int, revision: int = 1, total: float | None = 0.5) -> CycleRowModel:
    return CycleRowModel(cycle, "growth", "do nothing", "none", 1.0, total, "", revision)


def _experiences(life: Any) -> list[ExperienceRecorded]:
    with SqliteReader(life.home.path / "store.db") as store:
        return list(store.cycles.last("echo", 3))


def test_a_cycle_appears_at_its_act_and_is_revised_in_place(filled: Life) -> None:
    """First as being scored, then with its total, then with what came late; what is older than that changes nothing."""
    board = WatchPicture(["echo"])
    experience = _experiences(filled)[1]
    late = experience.model_copy(update={"revision": experience.revision + 1, "complete": False, "total": 0.75})

    board.take(filled.act(1))
    first = board.lives["echo"].rows[1]
    board.take(experience, seq=7)
    second = board.lives["echo"].rows[1]
    board.take(late, seq=9)
    board.take(experience, seq=7)
    board.take(filled.act(1))
    [third] = board.lives["echo"].rows.values()

    assert (first.total, first.note) == (None, "scoring")
    assert (second.total, second.note, second.seq) == (experience.total, "", 7)
    assert (third.total, third.note, third.seq) == (0.75, "4 of 4 scored", 9)


def test_what_is_no_news_is_not_drawn(filled: Life) -> None:
    """The same fact twice, one of another agent, and one of no cycle leave the version as it is."""
    board = WatchPicture(["echo"])
    experience = _experiences(filled)[0]
    board.take(experience)
    version = board.version

    board.take(experience)
    board.take(experience.model_copy(update={"agent": "another"}))
    board.take(experience.model_copy(update={"cycle": None}))
    board.change(trouble=board.trouble)

    assert board.version == version


@given(cycles=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=80))
def test_rows_are_the_newest_in_order_each_once(cycles: list[tuple[int, int]]) -> None:
    """However they come, also late and twice; no more of them than are kept."""
    life = AgentPicture("echo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "ROWS", 10)
        for cycle, revision in cycles:
            life.put(_row(cycle, revision))

    kept = list(life.rows)
    assert kept == sorted(set(kept))
    assert len(kept) <= 10
    if cycles:
        assert kept[-1] == max(cycle for cycle, _ in cycles)
    for cycle, row in life.rows.items():
        assert row.revision <= max(revision for number, revision in cycles if number == cycle)


def test_needs_are_those_of_the_newest_cycle(filled: Life) -> None:
    """One that comes late does not take them back."""
    board = WatchPicture(["echo"])
    newer, older = (fact for cycle in (2, 1) for fact in filled.scores(filled.act(cycle)) if type(fact) is NeedsChanged)
    board.take(newer)
    board.take(older.model_copy(update={"after": {"curiosity": 0.0}}))

    assert board.lives["echo"].needs == {"curiosity": 0.65, "excellence": 0.25}


@given(values=st.lists(st.floats(-2, 2), max_size=300), width=st.integers(0, 120))
def test_a_sparkline_fits_and_rises_with_its_values(values: list[float], width: int) -> None:
    """One character a value, the newest that fit; the greatest is never drawn below the least."""
    low, high = (min(values), max(values)) if values else (0.0, 0.0)

    line = drawing.sparkline(values, width, low, high)

    shown = values[-width:] if width else []
    assert len(line) == len(shown)
    if shown:
        assert line[shown.index(max(shown))] >= line[shown.index(min(shown))]


@given(values=st.lists(st.floats(-2, 2), max_size=60), over=st.integers(1, 10))
def test_a_moving_mean_stays_between_its_values(values: list[float], over: int) -> None:
    """As many as there are values; each between the least and the greatest of its window."""
    found = means(values, over)

    assert len(found) == len(values)
    for end, mean in enumerate(found, start=1):
        window = values[max(0, end - over) : end]
        assert min(window) - 1e-9 <= mean <= max(window) + 1e-9


@given(width=st.integers(10, 200), text=st.text(max_size=60), level=st.floats(0, 1), total=st.floats(-2, 2))
def test_no_panel_is_wider_than_its_room(width: int, text: str, level: float, total: float) -> None:
    """Nor has any of them a control character or a mark that turns the direction, whatever names there are."""
    board = WatchPicture(["echo"])
    life = board.lives["echo"]
    life.put(CycleRowModel(1, "n", "a", "none", 1.0, total, "", 1, 0, {picture.safe_text(text, one_line=True): total}))
    life.needs = {picture.safe_text(text, one_line=True): level}
    board.tell("echo", text, text)

    for drawn in (drawing.components(life, width), drawing.needs(life, width), drawing.headline(board, life, width)):
        assert all(ord(letter) >= 32 for line in drawn.plain.splitlines() for letter in line)
        assert not set(drawn.plain) & set("\u202e\u2066\u200f\x1b")
    assert drawing.headline(board, life, width).cell_len == width


@pytest.mark.parametrize(("parts", "said"), [(5, "part-4"), (8, "and 4 more")])
def test_a_panel_says_how_many_it_leaves_out(parts: int, said: str) -> None:
    """Of more components than it has lines for the last line counts the rest."""
    life = WatchPicture(["echo"]).lives["echo"]
    named = {f"part-{at}": 0.1 for at in range(parts)}
    life.put(CycleRowModel(1, "n", "a", "none", 1.0, 0.5, "", 1, 0, named))

    lines = drawing.components(life, 60).plain.splitlines()

    assert len(lines) == drawing.PANEL_LINES
    assert lines[-1].startswith(said)


def test_hostile_words_are_text(filled: Life) -> None:
    """Markup stays as it is written; escape sequences are gone."""
    board = WatchPicture(["echo"])
    for experience in _experiences(filled):
        board.take(experience)

    row = board.lives["echo"].rows[2]
    cell = drawing.cells(row, drawing.COLUMNS, 110)[2]
    assert "[/nope] [bold]hi[/]" in cell.plain
    assert "\x1b" not in cell.plain
    assert cell.spans == []


def test_the_headline_follows_a_cycle_through_its_phases(filled: Life) -> None:
    """Each event of the newest cycle brings it on; an earlier one, or one of an older cycle, does not take it back."""
    board = WatchPicture(["echo"])
    board.tell("echo", "running", "")
    board.change(trouble="")
    life = board.lives["echo"]
    experience = _experiences(filled)[1]

    board.take(filled.act(1))
    first = drawing.headline(board, life, 80).plain
    board.take(experience)
    board.take(filled.act(1))
    second = drawing.headline(board, life, 80).plain
    board.take(filled.act(2))
    board.take(experience.model_copy(update={"revision": 9}))

    assert "cycle 1 is scored" in first
    assert "cycle 1 rests" in second
    assert "cycle 2 is scored" in drawing.headline(board, life, 80).plain


def test_goals_and_failing_rules_stand_below_where_there_is_room(filled: Life) -> None:
    """A goal with its best measure; the rule that failed most with how often and why; neither on a low screen."""
    board = WatchPicture(["echo"])
    life = board.lives["echo"]
    broken = [
        one.model_copy(update={"status": "error", "value": None, "explanation": f"no idea {cycle}"})
        for cycle, one in enumerate(_experiences(filled)[0].scores)
    ]
    for experience in _experiences(filled):
        board.take(experience.model_copy(update={"scores": (broken[0], *experience.scores[1:])}))

    whole, low = (drawing.below(board, life, 100, whole=told).plain for told in (True, False))

    assert " rules  format failed on 3 of 3 acts: no idea 0" in whole
    assert " goals  0.50 " in whole
    assert "goals" not in low
    assert "rules" not in low


@given(values=st.lists(st.floats(-2, 2), min_size=1, max_size=300), width=st.integers(8, 120))
def test_a_chart_fits_and_names_its_axis(values: list[float], width: int) -> None:
    """As many lines as asked for, none wider than the room; the columns reach the top where the greatest is named."""
    lines = drawing.chart(values, width)

    assert len(lines) == drawing.CHART_ROWS
    assert all(len(line) <= width for line in lines)
    shown = [float(lines[at][: drawing.AXIS]) for at in (0, -1)]
    assert min(values) - 0.006 <= shown[1] <= shown[0] <= max(values) + 0.006
    assert all(column != " " for column in lines[-1][drawing.AXIS :])


def test_a_trend_compares_both_ends() -> None:
    """The means of the first and the last cycles that are shown; too few cycles have none."""
    assert drawing.trend([0.0] * 20 + [0.5] * 20) == "first 20 +0.00 → last 20 +0.50 (+0.50)"
    assert drawing.trend([0.0] * 39) == "no trend before 40 cycles"


def test_the_verdict_on_the_life_stands_below_the_chart_once_it_is_known(filled: Life) -> None:
    """Until then the two ends of what is shown are compared; the same verdict again is no news."""
    shown = WatchPicture(["echo"])
    for seq, event in enumerate(_experiences(filled), 1):
        shown.take(event, seq)
    life = shown.lives["echo"]
    before = drawing.reward(life, 80).plain.splitlines()[-1]

    shown.judge("echo", "Learning: the reward still rises.")
    version = shown.version
    shown.judge("echo", "Learning: the reward still rises.")

    assert before.startswith(("no trend", "first 20"))
    assert drawing.reward(life, 80).plain.splitlines()[-1] == "Learning: the reward still rises."
    assert shown.version == version


def test_a_lineage_is_one_line_that_follows_its_events() -> None:
    """Step and time left while a round trains; then how it ended, what acts, and the last gate."""
    life = LineageLife()
    board = WatchPicture(["echo"])
    assert drawing.below(board, board.lives["echo"], 80).plain.count("\n") == 1

    for event in life.training(1, 1, STEPS // 2, "sft"):
        board.take(event)
    trains = drawing.below(board, board.lives["echo"], 120).plain
    for event in life.whole():
        board.take(event)
    ended = board.lives["echo"].trained

    assert f" trained training: step {STEPS // 2} of {STEPS}, 3 min left; the base acts" in trains
    acts = f"generation 1 acts ({digest_of('adapter 1')[:12]})"
    assert ended == f"refused: its cycles earned 0.150 less (-0.260 to -0.040); {acts}, last gate passed"


def test_a_stored_lineage_gives_way_to_newer_events() -> None:
    """The store lags behind the stream; without events it is all there is."""
    life = LineageLife(step=1.0)
    events = life.whole(running=True)
    board = WatchPicture(["echo"])
    board.remember_lineage("echo", lineage_of(events))
    trains = board.lives["echo"].trained

    board.remember_lineage("echo", lineage_of(life.whole()))

    assert trains.startswith("training: step")
    assert board.lives["echo"].trained == trains
