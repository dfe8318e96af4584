"""New material: what each kind asks for can be done, and cannot be had by noise; and there is never too much of it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import ToolSettings
from conch.cycle.grounding.files import list_files
from conch.errors import HomeError
from conch.minds import Situation
from conch.minds.embedded.templates import LINES_AT_ONCE, TEMPLATES, fill_slots
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext, Workspace, run_check
from conch.workspace import KEPT, TIDEPOOL, fill, lay_out, put_away, record_filled, script_of
from conch.workspace.material import MOST_BYTES, MOST_FILES
from conch.workspace.record import RECORD
from conch.workspace.tidepool import QUESTIONS, TidepoolScript
from conch_schemas import Action, FileCheck, Goal

SETTINGS = ToolSettings(sandbox="off")
SCRIPT = TidepoolScript()
FILES = TIDEPOOL.files
BY_HAND = {
    "count": ("stage everything", "commit"),
    "sums": ("add up the columns that a goal names",),
    "glossary": ("copy the lines that a goal's file lacks",),
    "answer": ("copy the lines that a goal's file lacks",),
    "report": ("keep what the goal's tests say",),
    "mend": ("make the correction that a goal asks for",),
    "summary": ("copy the lines that a goal's file lacks",),
}
"""The templates that reach a goal, by the beginning of its id."""


def steps(goal: Goal) -> list[str]:
    """The templates that reach a goal, in their order; each as often as it takes."""
    first, *then = BY_HAND[goal.id.partition("-")[0]]
    texts = goal.check.contains if isinstance(goal.check, FileCheck) else ()
    return [first] * (-(-len(texts) // LINES_AT_ONCE) if first.startswith("copy") else 1) + then


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    fill(directory)
    return directory


@pytest.fixture
def workspace(notebook: Path) -> Workspace:
    return Workspace(notebook, 2**20)


async def achieved(goal: Goal, directory: Path) -> bool:
    result = await run_check(goal.check, directory, Sandbox(SETTINGS), 10.0)
    assert result.error is None
    return result.achieved


def act_of(template: str, goal: Goal, directory: Path) -> Action:
    """The template's call for this goal alone."""
    situation = Situation(
        agent="echo", cycle=1, needs={}, pressing={}, need="curiosity", goals=(goal,), files=list_files(directory)
    )
    slots = fill_slots(situation, random.Random(0))
    made = next(one for one in TEMPLATES if one.name == template)
    call = made.plain(slots) if made.plain is not None else made.of_goal and made.of_goal(slots.goals[0])
    assert call is not None
    return call.action()


@pytest.mark.parametrize("number", range(14))
async def test_each_goal_fails_at_first_and_is_reached_by_the_templates_for_its_kind(
    number: int, notebook: Path, workspace: Workspace, tmp_path: Path
) -> None:
    """By real tools, from what the goal says alone; two months of each kind."""
    piece = SCRIPT.piece(3, number)
    lay_out(workspace, piece)
    before = await achieved(piece.goal, notebook)

    with Notes(tmp_path / "notes.db") as notes:
        context = ToolContext(notebook, Sandbox(SETTINGS), notes, SETTINGS, None)
        outcomes = [
            await Toolbox(BUILTIN_TOOLS).run(act_of(template, piece.goal, notebook), context)
            for template in steps(piece.goal)
        ]

    assert [outcome.status for outcome in outcomes] == ["success"] * len(outcomes)
    assert (before, await achieved(piece.goal, notebook)) == (False, True)


@pytest.mark.parametrize("number", range(7))
async def test_no_goal_is_reached_by_noise(number: int, notebook: Path, workspace: Workspace) -> None:
    """Thousands of words of the workspace and of the goal itself, in any order, in the goal's file and beside it."""
    piece = SCRIPT.piece(3, number)
    lay_out(workspace, piece)
    draw = random.Random(number)
    texts = [piece.goal.model_dump_json(), *(file.read_text() for file in notebook.rglob("*.*") if file.is_file())]
    words = sorted({word for text in texts for word in re.findall(r"[\w*-]+", text)})
    noise = "\n".join(" ".join(draw.choices(words, k=8)) for _ in range(2000))
    target = [piece.goal.check.path] if isinstance(piece.goal.check, FileCheck) else []
    for path in ("drafts.md", "glossary.md", *target):
        (notebook / path).write_text(noise)

    assert not await achieved(piece.goal, notebook)


@given(st.integers(0, 2**32), st.integers(0, 2**20))
def test_a_piece_is_a_function_of_seed_and_number(seed: int, number: int) -> None:
    """Twice the same; another seed brings other content to the same paths."""
    piece, other = SCRIPT.piece(seed, number), SCRIPT.piece(seed + 1, number)

    assert piece == SCRIPT.piece(seed, number)
    assert (piece.paths, piece.goal.id) == (other.paths, other.goal.id)
    assert piece != other


def test_the_workspace_stays_small_over_two_thousand_pieces() -> None:
    """Each piece is small, has an id and paths of its own while it stays, and leaves the notebook's files alone."""
    own = {str(file.relative_to(FILES)) for file in FILES.rglob("*") if file.is_file()}
    pieces = [SCRIPT.piece(1, number) for number in range(2000)]

    assert len({piece.goal.id for piece in pieces}) == 2000
    for piece in pieces:
        assert sum(len(text.encode()) for _, text in piece.files) <= MOST_BYTES
        assert len(piece.paths) <= MOST_FILES
    for number in range(2000):
        there = [path for piece in pieces[max(0, number - KEPT + 1) : number + 1] for path in piece.paths]
        assert len(there) == len({*there} - own) <= KEPT * MOST_FILES


def test_what_is_put_away_leaves_nothing_behind(notebook: Path, workspace: Workspace) -> None:
    """After a year the notebook has the last pieces and what it had at first, and no more questions than these."""
    before = {*list_files(notebook)}
    asked = (notebook / QUESTIONS).read_text().splitlines()
    pieces = [SCRIPT.piece(1, number) for number in range(84)]
    for number, piece in enumerate(pieces):
        if number >= KEPT:
            put_away(workspace, pieces[number - KEPT])
        lay_out(workspace, piece)
        if isinstance(piece.goal.check, FileCheck):
            workspace.write(piece.goal.check.path, "written by the agent\n")

    assert {*list_files(notebook)} - before == {path for piece in pieces[-KEPT:] for path in piece.paths}
    questions = [piece.line.line for piece in pieces[-KEPT:] if piece.line is not None]
    assert (notebook / QUESTIONS).read_text().splitlines() == [*asked, *questions]


@pytest.mark.parametrize("number", range(7))
def test_laying_out_and_putting_away_twice_is_once(number: int, notebook: Path, workspace: Workspace) -> None:
    """A process that was killed in between does it again."""
    piece = SCRIPT.piece(1, number)

    def state() -> dict[str, str]:
        return {name: (notebook / name).read_text() for name in list_files(notebook)}

    empty = state()
    for change in (lay_out, put_away):
        change(workspace, piece)
        once = state()
        change(workspace, piece)
        assert state() == once
    assert state() == empty


def test_what_the_agent_has_in_work_is_not_written_over(notebook: Path, workspace: Workspace) -> None:
    """A file that is there stays as it is; a question comes below what the agent added."""
    table, letter = SCRIPT.piece(1, 0), SCRIPT.piece(1, 3)
    (path, _), *_ = table.files
    workspace.write(path, "mine\n")
    workspace.write(QUESTIONS, "- mine?")

    lay_out(workspace, table)
    lay_out(workspace, letter)

    assert workspace.read(path) == "mine\n"
    assert letter.line is not None
    assert workspace.read(QUESTIONS) == f"- mine?\n{letter.line.line}\n"


def test_what_the_piece_did_not_write_is_not_put_away(notebook: Path, workspace: Workspace) -> None:
    """A person's own table stays, and so does the rest of a piece; a program that was corrected goes."""
    table, mend = SCRIPT.piece(1, 0), SCRIPT.piece(1, 5)
    (path, _), *_ = table.files
    workspace.write(path, "mine\n")
    lay_out(workspace, table)
    lay_out(workspace, mend)
    (program, text), *_ = mend.corrected
    assert workspace.read(program) != text
    workspace.write(program, text)

    put_away(workspace, table)
    put_away(workspace, mend)

    assert workspace.read(path) == "mine\n"
    assert workspace.stat(program) is None


@pytest.mark.parametrize("number", range(7))
def test_a_directory_in_the_place_of_a_file_stays(number: int, notebook: Path, workspace: Workspace) -> None:
    """It and what is in it; the piece is laid out and put away beside it."""
    piece = SCRIPT.piece(1, number)
    places = [*piece.paths, *([piece.line.path] if piece.line is not None else [])]
    for path in places:
        (notebook / path).unlink(missing_ok=True)
        (notebook / path).mkdir(parents=True)
        (notebook / path / "mine").write_text("mine\n")

    lay_out(workspace, piece)
    put_away(workspace, piece)

    assert all((notebook / path / "mine").read_text() == "mine\n" for path in places)


def test_a_line_leaves_the_other_bytes_of_its_file(notebook: Path, workspace: Workspace) -> None:
    """Bytes that are no UTF-8 and ends of lines of another system stay as they are, with the line and without it."""
    piece = SCRIPT.piece(1, 3)
    assert piece.line is not None
    mine = b"- caf\xe9?\r\n- \xff\n"
    (notebook / QUESTIONS).write_bytes(mine)

    lay_out(workspace, piece)
    both = (notebook / QUESTIONS).read_bytes()
    put_away(workspace, piece)

    assert both == mine + piece.line.line.encode() + b"\n"
    assert (notebook / QUESTIONS).read_bytes() == mine


def test_no_link_leads_material_out_of_the_workspace(notebook: Path, workspace: Workspace, tmp_path: Path) -> None:
    """An agent that made `surveys` a link does not make Conch write elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (notebook / "surveys").symlink_to(elsewhere)

    with pytest.raises(Exception, match="link"):
        lay_out(workspace, SCRIPT.piece(1, 4))
    assert [*elsewhere.iterdir()] == []


def test_only_a_workspace_that_was_filled_is_brought_anything(notebook: Path, tmp_path: Path) -> None:
    """Not one without a record, nor another directory, nor one whose content a person has replaced."""
    home, other = tmp_path, tmp_path / "other"
    fill(other)
    assert script_of(home, home, notebook) is None
    record_filled(home, home, notebook)

    assert isinstance(script_of(home, home, notebook), TidepoolScript)
    assert script_of(home, home, other) is None
    (notebook / "README.md").write_text("# My project\n")
    assert script_of(home, home, notebook) is None


def test_a_home_that_was_moved_knows_its_workspace(tmp_path: Path) -> None:
    """The record names it relative to the home."""
    home = tmp_path / "home"
    record_filled(home, home, home / "workspace")
    fill(home / "workspace")
    moved = home.rename(tmp_path / "moved")

    assert script_of(moved, moved, moved / "workspace") is not None


@pytest.mark.parametrize("text", ["", "[]", '{"workspace": "workspace", "script": "nowhere:None"}'])
def test_a_damaged_record_is_said(text: str, notebook: Path, tmp_path: Path) -> None:
    """The file, and what to do."""
    (tmp_path / RECORD).write_text(text)

    with pytest.raises(HomeError, match="delete it"):
        script_of(tmp_path, tmp_path, notebook)
