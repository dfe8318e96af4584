"""`conch report cycle | run | verify`: one signed HTML page of a cycle or a run, or of two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number
from pydantic import Field

from conch.cli.common import CommonOptions, emit, say
from conch.cli.options import COMMON, AgentName, reading
from conch.errors import ConchError, UsageError
from conch.text import safe_text
from conch.views import View

if TYPE_CHECKING:
    from conch.experience import ExperienceReader
    from conch.report import Report, ReportedRun
    from conch.views import WholeCycle

app = App(name="report", help="One signed HTML page of a cycle or a run, that opens without Conch: cycle, run, verify.")

Out = Annotated[Path | None, Parameter(help="The file to write; an earlier one is replaced.")]


class ReportMade(View):
    """What `conch report cycle | run --json` prints."""

    schema_: Literal["conch.v1.report_made"] = Field(default="conch.v1.report_made", alias="schema")
    file: str
    bytes: int
    key: str
    """The public key of its signature, base64."""
    marks: int
    """Marks that it holds."""


class ReportVerified(View):
    """What `conch report verify --json` prints."""

    schema_: Literal["conch.v1.report_verified"] = Field(default="conch.v1.report_verified", alias="schema")
    file: str
    title: str
    made: str
    key: str
    marks: int


@app.command
def cycle(
    number: int,
    beside: int | None = None,
    /,
    *,
    out: Out = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Write the page of a cycle, with the prompt, the scores, the lines of its total and its marks.

    Parameters
    ----------
    number
        The cycle's number.
    beside
        Another cycle of the agent, shown side by side.
    """
    numbers = [number] if beside is None else [number, beside]
    with reading(common, agent) as (store, name):
        found = [_cycle(store, name, one) for one in numbers]
    title = " beside ".join(f"cycle {one}" for one in numbers) + f" of {name}"
    names = "-".join(map(str, numbers))
    _write(_report(title, cycles=found), out or Path(f"cycle-{names}.html"), common)


@app.command
def run(
    *,
    beside: Annotated[Path | None, Parameter(help="Another home, shown side by side; it may be this one.")] = None,
    beside_agent: Annotated[str | None, Parameter(help="The agent of the other home, where there are several.")] = None,
    last: Annotated[int | None, Parameter(validator=Number(gte=1), help="The last N cycles; default all.")] = None,
    out: Out = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Write the page of a run: figures, curve of the totals, goals, components, best and worst cycles, marks."""
    found = [_run(common, agent, last)]
    if beside is not None:
        found.append(_run(CommonOptions(home=beside), beside_agent, last))
    elif beside_agent is not None:
        raise UsageError("--beside-agent is the agent of another home: name that with --beside")
    title = " beside ".join(f"{one.agent} in {one.home}" for one in found)
    _write(_report(title, runs=found), out or Path(f"run-{found[0].agent}.html"), common)


@app.command
def verify(
    file: Path,
    /,
    *,
    key: Annotated[Path | None, Parameter(help="The key that must have signed it, secret or public.")] = None,
    json: Annotated[bool, Parameter(negative="", help="One JSON document.")] = False,
) -> None:
    """Whether a page is what was signed, and each mark in it what its hash was taken over; exit status 4 where not.

    Parameters
    ----------
    file
        The page.
    """
    from conch.report import check
    from conch.witness import public_key

    found = check(file, None if key is None else public_key(key))
    report, marks = found.report, len(found.report.marks)
    if json:
        emit(ReportVerified(file=str(file), title=report.title, made=report.made, key=found.key, marks=marks))
        return
    say(f"{safe_text(report.title, one_line=True)}, made {report.made}")
    known = "" if key is not None else "; --key FILE checks whose key it is"
    say(f"signed with the key {found.key}: nothing was changed since{known}")
    say(f"{marks} marks: each is what its hash was taken over")


def _cycle(store: ExperienceReader, agent: str, number: int) -> WholeCycle:
    from conch.views import whole_row

    experience = store.cycles.get(agent, number)
    if experience is None:
        raise UsageError(f"there is no recorded cycle {number} of {agent}: conch cycle list shows the last ones")
    return whole_row(experience, store.chain.marks_of(agent, str(experience.action_id)))


def _run(common: CommonOptions, agent: str | None, last: int | None) -> ReportedRun:
    from conch.report import run_figures, training_figures
    from conch.training import AdapterShelf
    from conch.views import gate_decisions

    home = common.where()
    with reading(common, agent) as (store, name):
        found = run_figures(store, home.path.name, name, last)
        if found is None:
            raise ConchError(f"{name} has no recorded cycle in {home.path} yet: conch run makes some")
        shelf = AdapterShelf(home.adapters)
        trained = training_figures(store, name, shelf.replies, lambda round: gate_decisions(home.training, round))
    return found.model_copy(update={"training": trained})


def _report(title: str, *, cycles: Sequence[WholeCycle] = (), runs: Sequence[ReportedRun] = ()) -> Report:
    from importlib.metadata import version

    from conch.report import Report

    made = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(title=title, made=made, version=version("conch-agent"), cycles=tuple(cycles), runs=tuple(runs))


def _write(report: Report, file: Path, common: CommonOptions) -> None:
    """Sign the page with this user's witness key and write it, whole or not at all."""
    import base64

    from conch.home import write_whole
    from conch.report import rendered, sealed
    from conch.witness import key_file, signing_key

    key = signing_key(key_file())
    page = sealed(rendered(report), key)
    try:
        write_whole(file, page.decode(), 0o644)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no file"
        raise UsageError(f"{file} cannot be written ({why}): name another file with --out") from None
    public, marks = base64.b64encode(bytes(key.verify_key)).decode(), len(report.marks)
    if common.json:
        emit(ReportMade(file=str(file), bytes=len(page), key=public, marks=marks))
    else:
        say(f"wrote {file}, {len(page) / 1024:,.0f} KiB, signed with {key_file()}")
