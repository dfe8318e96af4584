"""`conch report`: signed pages of cycles and runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli import report
from conch.cli.common import CommonOptions
from conch.errors import CheckError, ConchError, UsageError
from conch.experience import SqliteReader
from conch.home import Home
from conch.report import check
from conch.report.run import curve, run_figures
from conch.witness import without_words
from conch_schemas import Action, Decoding, PersonForgotten
from tests.training.lives import LineageLife, digest_of

if TYPE_CHECKING:
    from tests.cli.conftest import Kept, Life


Printed = Callable[[], str]


@pytest.fixture(autouse=True)
def _keys_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "keys"))


@pytest.fixture
def page(filled: Life, common: CommonOptions, tmp_path: Path) -> Path:
    """The page of the cycle with hostile text."""
    file = tmp_path / "cycle.html"
    report.cycle(2, out=file, common=common)
    return file


def test_a_cycle_is_written_with_its_scores_and_marks(page: Path, filled: Life) -> None:
    """The document in the page is what `conch cycle show --json` prints, marks and all."""
    [cycle] = check(page).report.cycles

    with SqliteReader(filled.home.path / "store.db") as store:
        marks = store.chain.marks_of("echo", cycle.action_id)
    assert cycle.cycle == 2
    assert cycle.marks == tuple(marks)
    assert len(marks) == 2
    assert "+0.50" in page.read_text()


def test_the_same_report_has_the_same_bytes(filled: Life, common: CommonOptions, tmp_path: Path) -> None:
    """A page has no random part: two pages of one second differ in nothing but the time they were made at."""
    files = [tmp_path / "a.html", tmp_path / "b.html"]
    for file in files:
        report.cycle(0, 1, out=file, common=common)
    made = [check(file).report.made for file in files]
    [one, other] = [file.read_text().partition("<!-- conch-signature")[0] for file in files]
    assert one.replace(made[0], made[1]).replace(made[0][:19], made[1][:19]) == other


@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """One bit anywhere in the page, also in its signature, and it is refused."""
    page = _PAGE.get("bytes") or _made(tmp_path_factory)
    _PAGE["bytes"] = page
    at = data.draw(st.integers(0, len(page) - 1))
    changed = bytearray(page)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    file = tmp_path_factory.mktemp("changed") / "page.html"
    file.write_bytes(changed)
    with pytest.raises((CheckError, UsageError)):
        check(file)


_PAGE: dict[str, bytes] = {}


def _made(directories: pytest.TempPathFactory) -> bytes:
    from nacl.signing import SigningKey

    from conch.report import Report, rendered, sealed

    made = Report(title="nothing", made="2026-11-20T12:00:00+00:00", version="1")
    page = sealed(rendered(made), SigningKey(bytes(32)))
    file = directories.mktemp("whole") / "page.html"
    file.write_bytes(page)
    check(file)
    return page


def test_a_page_that_was_cut_off_or_added_to_is_refused(page: Path) -> None:
    """Bytes behind the signature are not signed, so there may be none."""
    whole = page.read_bytes()
    for changed in (whole[:-1], whole + b"<p>more</p>", whole.partition(b"<!-- conch-signature")[0]):
        page.write_bytes(changed)
        with pytest.raises(CheckError, match="no signature at its end"):
            check(page)


def test_the_key_that_must_have_signed_is_asked_for(page: Path, tmp_path: Path, printed: Printed) -> None:
    """With the public key of the signer it holds; with another one exit status 4."""
    report.verify(page, key=tmp_path / "keys/conch/witness.pub")
    assert "nothing was changed since\n" in printed()

    other = tmp_path / "other.pub"
    other.write_text(f"conch-witness-public-key {'A' * 43}=\n")
    with pytest.raises(CheckError, match="was signed with the key") as refused:
        report.verify(page, key=other)
    assert refused.value.exit_code == 4


def test_another_file_is_no_report(tmp_path: Path) -> None:
    """A page of something else, or none, is named as that."""
    file = tmp_path / "other.html"
    with pytest.raises(UsageError, match="cannot be read"):
        check(file)
    file.write_text("<p>hello</p>")
    with pytest.raises(UsageError, match="is no report"):
        check(file)


def test_hostile_text_stays_text(home: Home, kept: Kept, life: Life, common: CommonOptions, tmp_path: Path) -> None:
    """No element comes of what a mind or a tool wrote, nothing is fetched, and no script runs."""
    bad = "</script><script>alert(1)</script><img src=https://example.org/x onerror=alert(2)>\x1b[2J"
    kept(life.weights(), *life.cycle(0, bad))
    report.cycle(0, out=tmp_path / "bad.html", common=common)

    elements = Elements()
    elements.feed((tmp_path / "bad.html").read_text())
    assert [one for one in elements.found if one[0] in {"script", "img", "link", "iframe"}] == [
        ("script", [("type", "application/json"), ("id", "conch-report")])
    ]
    assert "\x1b" not in (tmp_path / "bad.html").read_text()
    assert check(tmp_path / "bad.html").report.cycles[0].thought.startswith("</script>")


class Elements(HTMLParser):
    """The elements of a page, as a browser's parser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep each element with its attributes."""
        self.found.append((tag, attrs))


def test_a_run_is_written_with_its_figures(
    filled: Life, common: CommonOptions, tmp_path: Path, printed: Printed
) -> None:
    """Its cycles are counted, its marks verified and the last ones kept."""
    file = tmp_path / "run.html"
    report.run(out=file, beside=filled.home.path, common=CommonOptions(home=filled.home.path, json=True))
    assert json.loads(printed())["marks"] == 12

    found, same = check(file).report.runs
    assert (found.cycles, found.first, found.last, found.marks) == (3, 0, 2, 6)
    assert found == same
    assert found.valid == found.succeeded == 1.0
    assert found.chain == "each of the 6 marks follows from the one before"
    assert [one.cycle for one in found.best] == [2, 1, 0]
    assert [part.mean for part in found.components if part.component == "execution"] == [pytest.approx(0.2)]
    assert found.verdict is not None
    assert (found.verdict.kind, found.verdict.headline) == ("early", "Too early to say: 3 of 200 cycles.")
    assert f'<h2 class="verdict">{found.verdict.headline}</h2>' in file.read_text()


def test_what_was_learnt_is_told(filled: Life, common: CommonOptions, kept: Kept, tmp_path: Path) -> None:
    """With rounds of training a run's page has the moves on the curve, each adapter's acts with the valid ones of its
    free replies, and what each round cost."""
    decoding = Decoding(engine="llama.cpp", model="m", constraint="free", adapter=digest_of("adapter 1"))
    acts = [filled.act(cycle, decoding=decoding) for cycle in (3, 4)]
    invalid = filled.act(5, decoding=decoding, action=Action(kind="INVALID", valid=False))
    kept(*LineageLife().whole())
    kept(*(fact for act in (*acts, invalid) for fact in (act, *filled.scores(act))))

    report.run(out=tmp_path / "run.html", common=common)

    page = tmp_path / "run.html"
    [told] = check(page).report.runs
    assert told.training is not None
    base, adapted = told.training.adapters
    assert (base.adapter, base.cycles, base.free) == (None, 3, 0)
    assert (adapted.adapter, adapted.cycles, adapted.free, adapted.valid) == (digest_of("adapter 1"), 3, 3, 2)
    assert [cost.phase for cost in told.training.costs] == ["active", "refused", "failed", "rolled back", "refused"]
    assert [move.kind for move in told.training.lineage.moves] == ["rolled back", "promoted", "promoted"]
    text = page.read_text()
    assert "2 of 3 (67 %)" in text
    assert text.count('<polyline class="curve') == 2


def test_only_the_last_cycles_are_counted(filled: Life) -> None:
    """`last` bounds every figure but the chain's."""
    with SqliteReader(filled.home.path / "store.db") as store:
        found = run_figures(store, "home", "echo", 2)
        assert found is not None
        assert (found.cycles, found.first, found.marks, len(found.curve)) == (2, 1, 6, 2)
        assert run_figures(store, "home", "nobody", 2) is None


def test_a_chain_that_was_changed_is_told(filled: Life, kept: Kept) -> None:
    """The run's page names the first problem of the chain."""
    mark = filled.mark(filled.act(3))
    kept(mark.model_copy(update={"mark": mark.mark.model_copy(update={"response": "something else"})}))
    with SqliteReader(filled.home.path / "store.db") as store:
        found = run_figures(store, "home", "echo")
    assert found is not None
    assert "the first: Mark 6 is not what its hash was taken over." in found.chain


def test_a_cycle_that_is_not_there_is_named(filled: Life, common: CommonOptions, tmp_path: Path) -> None:
    """Nothing is written then."""
    with pytest.raises(ConchError, match="no recorded cycle 9 of echo"):
        report.cycle(9, out=tmp_path / "none.html", common=common)
    assert not (tmp_path / "none.html").exists()


def test_a_file_that_cannot_be_written_is_named(filled: Life, common: CommonOptions, tmp_path: Path) -> None:
    """One sentence with the file and what to do."""
    with pytest.raises(UsageError, match=r"cannot be written .*: name another file with --out"):
        report.cycle(1, out=tmp_path / "no" / "such" / "page.html", common=common)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=2000))
def test_the_curve_keeps_the_mean_of_equal_groups(totals: list[float]) -> None:
    """At most 120 points, each within what it is the mean of."""
    points = list(curve(totals))
    assert len(points) <= 120
    assert min(totals) - 1e-9 <= min(points) <= max(points) <= max(totals) + 1e-9
    if len(totals) <= 120:
        assert points == totals


def test_marks_without_words_are_no_change(filled: Life, common: CommonOptions, kept: Kept, tmp_path: Path) -> None:
    """What was removed at a person's request is in the page of the run without its words, and the page holds."""
    with SqliteReader(filled.home.path / "store.db") as store:
        [first, *_] = store.chain.marks("echo")
    record = PersonForgotten(
        id="00000000-0000-4000-8000-000000000001",
        source=filled.act(0).source,
        agent="echo",
        request="r",
        actions=(str(first.action_id),),
        marks=(without_words(first),),
    )
    kept(record, filled.mark(record))

    report.run(out=tmp_path / "run.html", common=common)

    [found] = check(tmp_path / "run.html").report.runs
    assert found.chain == "each of the 7 marks follows from the one before"
    assert found.last_marks[0].response == ""


def test_a_name_that_is_no_file_is_named(filled: Life, common: CommonOptions) -> None:
    """A directory, or nothing at all."""
    with pytest.raises(UsageError, match="cannot be written"):
        report.cycle(1, out=Path(), common=common)
