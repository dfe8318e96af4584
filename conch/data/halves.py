"""The data set of cycles, read by two processes, half of the acts each.

A row of it depends on its act alone, and its split on when each state was first met: that is known at the end, so the
acts are read once. Other formats compare acts, and are made in one process (`rows`).
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from conch.bus import die_with_parent
from conch.config import Masker
from conch.data.acts import CycleDocument, cycle_document, decoding_of, outside, unread_replies
from conch.data.files.manifest import Manifest, Tally
from conch.data.files.snapshot import Gathered, write_gathered
from conch.data.files.spill import Spill, SpilledRows, parts_of
from conch.data.redact import Redactor, redactor
from conch.data.row import LeftOut, row_id_of
from conch.data.selection import Selection
from conch.data.survey import FirstMet
from conch.errors import StoreError
from conch.experience import Example, ExperienceReader, StoreLocation

_encode: Final = msgspec.json.Encoder().encode
ALONE: Final = 20_000
"""Acts below which one process makes the rows: the other one takes half a second to start."""


@dataclass(frozen=True)
class _Job:
    """What the acts of a range are made into rows with."""

    location: StoreLocation
    selection: Selection
    masker: Masker


@dataclass(frozen=True)
class _Half:
    """The rows of a range of acts."""

    tally: Tally
    met: FirstMet
    spilled: SpilledRows


def write_cycles(
    location: StoreLocation,
    store: ExperienceReader,
    out: Path,
    selection: Selection,
    masker: Masker,
    *,
    name: str | None = None,
    jsonl: bool = False,
) -> tuple[Path, Manifest]:
    """The snapshot that `write_snapshot` makes of `rows_of` the format cycles: the same bytes, sooner.

    `store`: open at `location`, where the second process opens it too. Acts that come while it is read are left for
    the next time. Raises what these two raise, and StoreError where the second process was killed.
    """
    job = _Job(location, selection, masker)
    with _without_collector():
        return write_gathered(
            lambda work: _gathered(store, job, work), out, "cycles", selection, name=name, jsonl=jsonl
        )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Rows are in no cycles of references, and looking for some again and again takes a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _gathered(store: ExperienceReader, job: _Job, work: Path) -> Gathered:
    acts, middle, last = store.examples.halves()
    if acts < ALONE or _processors() < 2:
        halves = [_half(store, job, 0, last, work / "spill")]
    else:
        with _second(job, middle, last, work / "spill-2") as second:
            halves = [_half(store, job, 0, middle, work / "spill-1"), _received(second)]
    tally, met = halves[0].tally, halves[0].met
    for half in halves[1:]:
        tally.add(half.tally)
        met.add(half.met)
    survey, states = met.survey(job.selection.eval_share), parts_of(met.states)
    tally.settle(survey.split)
    return Gathered(tally, [half.spilled for half in halves], lambda part: survey.split(states[part]))


def _half(store: ExperienceReader, job: _Job, after: int, upto: int, path: Path) -> _Half:
    """The rows of the acts of a `seq` above `after`, up to `upto`."""
    redact, tally, met = redactor(job.masker), Tally(), FirstMet()
    with Spill(path) as spill:
        for page in store.examples.pages(after=after, upto=upto):
            taken: list[Example] = []
            for example in page:
                met.note(decoding_of(example).state_key, example.acted)
                for left in unread_replies(example, job.selection):
                    tally.leave(left)
                if reason := outside(example, job.selection):
                    tally.leave(LeftOut(reason, (example.act.action_id,)))
                else:
                    taken.append(example)
            rows = _documents(taken, redact)
            spill.add_unparted(
                (row_id_of("cycles", content), row.state_key, content) for row in rows for content in [_encode(row)]
            )
            tally.take_cycles(rows)
        spill.flush()
    return _Half(tally, met, spill.rows())


def _documents(examples: Sequence[Example], redact: Redactor) -> list[CycleDocument]:
    """The rows of these acts, their texts redacted all at once."""
    replies = redact.all([one.act.data.raw for one in examples])
    thoughts = redact.all([one.act.data.thought for one in examples])
    return [cycle_document(*one) for one in zip(examples, replies, thoughts, strict=True)]


@contextmanager
def _second(job: _Job, after: int, upto: int, path: Path) -> Iterator[Connection]:
    """A process that makes the rows of these acts, and the pipe that it answers on; it is ended when the context is
    left."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(theirs, os.getpid(), job, after, upto, path), daemon=True)
    process.start()
    theirs.close()  # so that its end is the end of the pipe
    try:
        yield ours
    finally:
        ours.close()
        process.kill()
        process.join()


def _received(pipe: Connection) -> _Half:
    try:
        said: _Half | Exception = pipe.recv()
    except EOFError as error:
        raise StoreError("The process that read half of the acts was killed: export again.") from error
    if isinstance(said, Exception):
        raise said
    return said


def _live(pipe: Connection, parent: int, job: _Job, after: int, upto: int, path: Path) -> None:
    """Runs in the second process; ends with `parent`, its process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    if sys.platform == "linux":
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it had ended before that
            return
    try:
        store = job.location.reader()
        try:
            with _without_collector():
                said: _Half | Exception = _half(store, job, after, upto, path)
        finally:
            store.close()
    except Exception as error:  # it is raised where it is read
        said = error
    with suppress(OSError):  # whoever would read it has ended
        pipe.send(said)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
