"""Grounding: what a thought claims, and what is so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.cycle.ground import MOST_CLAIMS, ground
from conch_schemas import Claim, FileCheck, Goal

GOALS = (Goal(id="g", statement="All tests of tidepool pass.", check=FileCheck(path="x")),)


class Notes:
    """Two notes, nearest first by shared words."""

    def recall(self, text: str, limit: int = 5) -> tuple[str, ...]:
        notes = ("Limpets come back at night.", "The moon pulls the tide.")
        words = set(text.lower().split())
        found = [note for note in notes if words & set(note.lower().rstrip(".").split())]
        return tuple(found[:limit])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "notes").mkdir(parents=True)
    (made / "notes" / "tide.md").write_text("tide")
    (made / "README.md").write_text("read me")
    (tmp_path / "secret.md").write_text("outside")
    (made / "leads-out.md").symlink_to(tmp_path / "secret.md")
    (made / "loop.md").symlink_to(made / "loop.md")
    return made


def claims(thought: str, workspace: Path) -> tuple[Claim, ...]:
    return ground(thought, workspace=workspace, notes=Notes(), tools=["shell", "notes"], goals=GOALS).claims


@pytest.mark.parametrize(
    ("thought", "verdicts"),
    [
        ("There is a file notes/tide.md.", ["verified"]),
        ("I read README.md. It was short.", ["verified"]),
        ("The folder notes/ has what I want.", ["verified"]),
        ("There is a file notes/moon.md.", ["refuted"]),
        ("There is no notes/moon.md.", ["verified"]),
        ("There is no file named `notes/tide.md`", ["refuted"]),
        ("notes/moon.md does not exist yet, notes/tide.md does.", ["verified", "verified"]),
        ("README.md is missing.", ["refuted"]),
        ("I have not read README.md so far.", ["verified"]),
        ("I want to create notes/moon.md.", ["unknown"]),
        ("I will write README.md anew.", ["verified"]),
        ("README.md, README.md and README.md", ["verified"]),
        ("The file a/b is in the way.", ["refuted"]),
    ],
)
def test_a_named_file_is_there_or_it_is_not(thought: str, verdicts: list[str], workspace: Path) -> None:
    """A file that a thought names is looked for; a sentence that denies it is held to that."""
    assert [claim.verdict for claim in claims(thought, workspace)] == verdicts


@pytest.mark.parametrize(
    "thought",
    ["Sooner and/or later, e.g. at 3.14 a.m. or via https://example.com/x.md", "I call asyncio.run twice", ""],
)
def test_what_names_no_file_is_no_claim(thought: str, workspace: Path) -> None:
    """Abbreviations, addresses and dotted words are not taken for missing files."""
    assert claims(thought, workspace) == ()


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.md", "notes/../../secret.md", "~/secret.md"])
def test_nothing_outside_the_workspace_is_looked_at(name: str, workspace: Path) -> None:
    """Absolute paths and those that go up are neither verified nor refuted."""
    [claim] = claims(f"There is a file {name} somewhere", workspace)

    assert (claim.verdict, "outside the workspace" in claim.evidence) == ("unknown", True)


@pytest.mark.parametrize("name", ["leads-out.md", "loop.md"])
def test_a_link_that_leads_out_is_not_a_file_of_the_workspace(name: str, workspace: Path) -> None:
    """Where a link points outside, or nowhere, the evidence says nothing of what is there."""
    [claim] = claims(f"I see {name}", workspace)

    assert (claim.verdict, claim.evidence) == ("refuted", f"{name} is not in the workspace")


def test_a_name_too_long_is_unknown(workspace: Path) -> None:
    """What the file system refuses to look for is neither there nor not there."""
    assert [claim.verdict for claim in claims("a" * 300 + ".md", workspace)] == ["unknown"]


@pytest.mark.parametrize(
    ("thought", "about", "verdict"),
    [
        ("I can use the tool shell.", "tool", "verified"),
        ("I can use the tool browser.", "tool", "refuted"),
        ("I shall call `notes` now", "tool", "verified"),
        ("There is no tool `browser` here", "tool", "verified"),
        ("I remember that limpets come back at night.", "memory", "verified"),
        ("I remember that crabs sing.", "memory", "unknown"),
        ('My goal "all tests of tidepool pass" is near.', "goal", "verified"),
        ('My goal "world peace" is near.', "goal", "refuted"),
    ],
)
def test_tools_memories_and_goals_are_checked(thought: str, about: str, verdict: str, workspace: Path) -> None:
    """Each kind of claim against what it is about."""
    assert [(claim.about, claim.verdict) for claim in claims(thought, workspace)] == [(about, verdict)]


def test_a_tool_in_passing_is_no_claim(workspace: Path) -> None:
    """«a tool that …» names none."""
    assert claims("I would like a tool that reads tables; the tool is not the point.", workspace) == ()


HOSTILE = [
    "a/",
    "a.",
    "../",
    "-",
    ".",
    "a.b",
    "I remember ",
    "goal  ",
    "tool ",
    "no file ",
    "`",
    "\n",
    " ",
    "é\u202e",
    "x.md ",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_long_thought_takes_no_long_time(unit: str, workspace: Path) -> None:
    """8,000 hostile characters are grounded in under 50 ms, with at most MOST_CLAIMS claims."""
    thought = (unit * 8000)[:8000] + "!" * 100_000
    took = []
    for _ in range(3):
        began = time.process_time()
        found = claims(thought, workspace)
        took.append(time.process_time() - began)

    assert min(took) < 0.05
    assert len(found) <= MOST_CLAIMS


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(max_size=300),
        st.lists(st.sampled_from([*HOSTILE, "notes/tide.md", "\x00.md", "README.md", '"', "the tool shell"])).map(
            "".join
        ),
    )
)
def test_no_thought_breaks_the_grounding(workspace: Path, thought: str) -> None:
    """Whatever a mind says, grounding comes to an end with claims that an event can carry."""
    for claim in claims(thought, workspace):
        assert len(claim.claim) <= 300
        assert "\n" not in claim.claim + claim.evidence


def test_a_workspace_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """Nothing is there, then."""
    assert [claim.verdict for claim in claims("I see README.md", tmp_path / "gone")] == ["refuted"]
