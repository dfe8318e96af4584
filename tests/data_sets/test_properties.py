"""What holds of every data set, whatever the acts are."""

from __future__ import annotations

import resource
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.config import Masker
from conch.data import (
    FORMATS,
    Format,
    LeftOut,
    Manifest,
    Row,
    Selection,
    find_row,
    read_manifest,
    redactor,
    verify_files,
    write_snapshot,
)
from conch.data.files import manifest
from conch.data.row import make_row
from conch.data.survey import survey_of
from conch.errors import ContractError
from conch.experience import ExampleMark

TEXT = st.text(max_size=30)
REASONS = st.sampled_from(["invalid reply", "blocked", "coverage too low"])


@st.composite
def made(draw: st.DrawFn) -> list[Row | LeftOut]:
    """Answers of an export of KTO: rows with acts of their own, and reasons."""
    answers: list[Row | LeftOut] = []
    for number in range(draw(st.integers(0, 20))):
        if draw(st.booleans()):
            answers.append(LeftOut(draw(REASONS), (f"left {number}",)))
            continue
        columns = {
            "prompt": [{"role": "user", "content": draw(TEXT)}],
            "completion": [{"role": "assistant", "content": draw(TEXT)}],
            "label": draw(st.booleans()),
        }
        answers.append(
            make_row(
                "kto",
                columns,
                agent="echo",
                action_ids=(f"act {number}",),
                state_key=draw(st.sampled_from(["a", "b"])),
                prompt_hash="",
                reward=draw(st.floats(-1, 1)),
                split=draw(st.sampled_from(["train", "eval"])),
            )
        )
    return answers


@given(answers=made(), jsonl=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_counts_add_up_and_every_row_is_found(answers: list[Row | LeftOut], jsonl: bool) -> None:
    """`rows_seen` is `rows_in` plus what was left out; the files hold each row once, and its content has its id."""
    with tempfile.TemporaryDirectory() as folder:
        place, manifest = write_snapshot(answers, Path(folder), "kto", Selection(), jsonl=jsonl)

        assert manifest.rows_seen == len(answers) == manifest.rows_in + sum(manifest.left_out.values())
        assert manifest.left_out == Counter(one.reason for one in answers if isinstance(one, LeftOut))
        assert sum(manifest.splits.values()) == manifest.rows_in == sum(one.rows for one in manifest.files.values())
        verify_files(place, read_manifest(place))
        for row in answers:
            if isinstance(row, Row):
                _, found = find_row(Path(folder), row.row_id)
                assert found == row


@given(answers=made(), order=st.randoms())
@settings(max_examples=15, deadline=None)
def test_the_order_of_the_rows_does_not_matter(answers: list[Row | LeftOut], order: object) -> None:
    """The same rows in any order give the same bytes."""
    shuffled = list(answers)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, _ = write_snapshot(answers, Path(one), "kto", Selection())
        second, _ = write_snapshot(shuffled, Path(other), "kto", Selection())

        assert first.name == second.name
        assert {path.name: path.read_bytes() for path in first.iterdir()} == {
            path.name: path.read_bytes() for path in second.iterdir()
        }


def test_rows_are_sorted_by_their_id(tmp_path: Path) -> None:
    """Many rows in two orders, several of them in each part of the sort: the same bytes, by rising id."""
    import pyarrow.parquet as pq

    plain = {"agent": "echo", "state_key": "s", "prompt_hash": ""}
    rows = [make_row("grpo", {"prompt": []}, action_ids=(str(number),), **plain) for number in range(2000)]

    first, _ = write_snapshot(rows, tmp_path / "a", "grpo", Selection())
    second, _ = write_snapshot(reversed(rows), tmp_path / "b", "grpo", Selection())

    ids = pq.read_table(first / "train-00000.parquet", columns=["row_id"]).column(0).to_pylist()
    assert ids == sorted(row.row_id for row in rows)
    assert (first / "train-00000.parquet").read_bytes() == (second / "train-00000.parquet").read_bytes()


def test_a_row_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """No file has a row twice; nothing is left of the export."""
    row = make_row("grpo", {"prompt": []}, agent="echo", action_ids=("1",), state_key="s", prompt_hash="")

    with pytest.raises(ContractError, match="came twice"):
        write_snapshot([row, row], tmp_path, "grpo", Selection())

    assert list(tmp_path.iterdir()) == []


@given(
    acts=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100), st.floats(-1, 1)), max_size=30),
    share=st.floats(0, 0.5),
    order=st.randoms(),
)
def test_a_survey_does_not_depend_on_the_order(
    acts: list[tuple[str, float, float]], share: float, order: object
) -> None:
    """Splits are the same for the same acts, and a state has one split."""
    marks = [ExampleMark(n, "echo", acted, total, state, "", n) for n, (state, acted, total) in enumerate(acts)]
    shuffled = list(marks)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    first, second = survey_of(marks, share), survey_of(shuffled, share)

    assert {state: first.split(state) for state in "abcd"} == {state: second.split(state) for state in "abcd"}


@given(text=st.text(alphabet=st.characters(), max_size=200))
@settings(max_examples=100, deadline=None)
def test_redaction_twice_is_once(text: str) -> None:
    """A redacted text is redacted already, and can be written as UTF-8, also where it had lone surrogates."""
    redact = redactor(Masker(["hunter2-secret"]))

    once = redact(text)

    assert redact(once) == once
    once.encode()


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_data_set_has_columns(format: Format, tmp_path: Path) -> None:
    """An export of nothing writes the columns of both splits, and its manifest says why."""
    import pyarrow.parquet as pq

    place, manifest = write_snapshot([LeftOut("blocked")], tmp_path, format, Selection())

    for split in ("train", "eval"):
        table = pq.read_table(place / f"{split}-00000.parquet")
        assert (table.num_rows, "row_id" in table.column_names) == (0, True)
    assert manifest.why_empty == "All 1 acts and pairs were left out, 1 of them for: blocked."
    assert isinstance(read_manifest(place), Manifest)


def test_a_full_disk_is_the_error_of_the_disk(tmp_path: Path) -> None:
    """It is raised as it is while Parquet is written, and nothing is left."""
    plain = {"agent": "echo", "state_key": "s", "prompt_hash": ""}
    rows = [make_row("grpo", {"prompt": []}, action_ids=(str(number),), **plain) for number in range(2000)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        with pytest.raises(OSError, match="File too large"):
            write_snapshot(rows, tmp_path, "grpo", Selection())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list(tmp_path.iterdir()) == []


def test_a_reward_of_nothing_has_one_name_whatever_its_sign() -> None:
    """-0.0 and 0.0 are one group of rows: else the digest of a snapshot would depend on which row came first."""
    assert manifest._step(-0.0) == manifest._step(0.0) == "+0.00"
