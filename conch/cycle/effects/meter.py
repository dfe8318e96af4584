"""Measures each act of one agent: looks at the workspace around it, and compares lines with those the agent knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conch.config import EffectSettings
from conch.cycle.effects.commands import program_tested, same_command
from conch.cycle.effects.kinds import ActFindings, decided, programs_exhausted
from conch.cycle.effects.known import KnownLines
from conch.cycle.effects.lines import digest_of, digests_of, hits_of, lines_of
from conch.cycle.effects.noise import Trigrams
from conch.cycle.effects.results import gave_results
from conch.cycle.effects.scan import read_content, shown_path, text_of
from conch.cycle.effects.sources import (
    OutputSource,
    may_change,
    navigated_to,
    normal_path,
    opened_by,
    output_source,
    target_of,
)
from conch.cycle.effects.state import MeterState
from conch.cycle.effects.topics import FROM_ACTS, drawn_from, is_new_topic, resources_after, words_of
from conch.cycle.effects.tracker import WorkspaceChange, WorkspaceTracker
from conch.cycle.state.acts import RECENT
from conch.cycle.state.memory import AgentMemory
from conch.errors import StoreError
from conch.log import get_logger
from conch.tools import without_numbers
from conch_schemas import (
    Action,
    CheckRun,
    CommandCheck,
    ContextUse,
    GoalCheck,
    Information,
    MeasuredEffect,
    Outcome,
    TestsCheck,
)

log = get_logger(__name__)

SMALL = 500
"""Files of a workspace that is looked at in the event loop: 2 ms at most, a thread takes 0.1 ms."""
SHOWN_PATHS = 100
"""Most changed paths in an event."""
ADDED_PATHS = 10
"""Most files in an event that lines were only added to."""
LETTERS_MET = 20_000
"""Letters of what the workspace holds at first that trigrams are learnt from: 2 ms, five times what noise needs."""
FILES_FINISHED = 10
"""Most files of a search's hits that are looked at for lines that are still unseen."""
MOST_WRITTEN = 0.01
"""Share of the known lines that one act may write: else one command could make the agent forget all others."""
NOT_RUN = frozenset({126, 127})
"""Exit statuses of a shell that could not execute the program, or did not find it."""


@dataclass(frozen=True)
class TakenAct:
    """An act with what is known of it once it is over."""

    cycle: int
    action: Action
    outcome: Outcome
    goals: tuple[GoalCheck, ...]
    memory: AgentMemory
    """The agent's memory before the act."""
    message: str = ""
    """The text of the message that the act answered."""
    context: ContextUse | None = None
    skills: int = 0
    """Tool × operation pairs on offer."""
    left: Mapping[str, float] = field(default_factory=dict)
    """Share of each resource that is left, 0..1."""


@dataclass(frozen=True)
class _LinesRead:
    """The lines that an act showed, by digest."""

    source: OutputSource | None
    lines: dict[int, str]
    """Those that can be information."""
    unseen: dict[int, str]
    finished_file: bool


class EffectMeter:
    """Measures the acts of one agent, one at a time: `begin`, the act, `end`, its goals' checks, `settle`, `effect`.

    `effect` stores what the act left before its event is published. A kill between the two leaves an act with an
    unknown outcome, whose lines are known: nothing is new twice. Where the file of the known lines cannot be used, acts
    are not measured, and that is logged.
    """

    def __init__(
        self, workspace: Path, known: KnownLines, settings: EffectSettings, test_programs: tuple[str, ...]
    ) -> None:
        self._workspace, self._known, self._settings, self._test_programs = workspace, known, settings, test_programs
        self._tracker = WorkspaceTracker(workspace)
        self._state: MeterState | None = None
        self._change: WorkspaceChange | None = None
        self._own: frozenset[int] = frozenset()
        """Lines of the files that the act and the goals' checks after it wrote."""
        self._began = 0
        """Version of the workspace before the act."""
        self._met: set[str] = set()
        """Messages and goals whose topics have been compared."""

    async def begin(self, action: Action) -> None:
        """Look at the workspace before an act that may change it or reads its files. A difference from the last look
        is a change from outside."""
        self._change = None
        if may_change(action):
            await self.look()
            self._change = WorkspaceChange()
        elif output_source(action) in ("file", "hits"):
            await self.look()
        self._began = self._state.version if self._state is not None else 0

    async def end(self) -> None:
        """Look at the workspace after the act: the difference is the act's own."""
        if self._change is None:
            return
        self._change = await self._looked()
        self._wrote(self._change)
        if self._change.content and self._state is not None:
            self._state = self._state.model_copy(update={"version": self._state.version + 1})

    async def look(self) -> None:
        """Look for changes from outside."""
        first = not self._tracker.looked
        change = await self._looked()
        try:
            state = self._loaded()
            if not state.met:
                self._state = state = self._met_workspace(state, change)
        except StoreError:
            return  # `effect` reports it where it comes again
        if first:
            outside = state.workspace is not None and self._tracker.digest not in (None, state.workspace)
        else:
            outside = change.content
        if outside:
            self._state = state.changed_outside()

    async def brought(self) -> None:
        """Take in the material that the home has just brought: the workspace is another one, so that a check on it
        counts anew."""
        if self._tracker.looked and (await self._looked()).content and self._state is not None:
            self._state = self._state.model_copy(update={"version": self._state.version + 1})

    async def settle(self) -> None:
        """Take the workspace as it is for unchanged: goals' checks that ran programs have written files.

        Their lines will be known, as those programs may be the agent's own.
        """
        if self._tracker.looked:
            self._wrote(await self._looked())

    def _wrote(self, change: WorkspaceChange) -> None:
        """Keep the lines of the agent's own change to be known; where they are too many, their files inform nobody."""
        if len(change.read) > MOST_WRITTEN * self._settings.known_lines:
            self._tracker.leave_unknown(change.files)
        else:
            self._own |= change.read

    def forget_workspace(self) -> None:
        """After an act with an unknown outcome: what differs now is not a change from outside."""
        try:
            self._state = self._loaded().model_copy(update={"workspace": None})
        except StoreError:
            return  # `effect` reports it

    def effect(self, act: TakenAct) -> MeasuredEffect | None:
        """The measured effect of an act that is over. Stores what it left. None where that failed."""
        change, self._change = self._change or WorkspaceChange(), None
        own, self._own = self._own, frozenset()
        try:
            return self._measured(act, self._loaded(), change, own)
        except StoreError as error:
            log.warning("effect.not_measured", error=str(error))
            return None

    def close(self) -> None:
        """Close the file of the known lines. A second call does nothing."""
        self._known.shut()

    def _met_workspace(self, state: MeterState, found: WorkspaceChange) -> MeterState:
        """The state after the first look: what the workspace holds tells text from noise, read or not. Else an agent
        that reads nothing could write noise for ever."""
        trigrams = self._known.trigrams(state.letters)
        for line in found.written.values():
            if trigrams.letters.total() >= LETTERS_MET:
                break
            trigrams.learn([line])
        met = state.model_copy(update={"met": True, "letters": dict(trigrams.letters)})
        self._known.store((), (), met, learnt=True)  # at once: the file may be closed before the act is over
        return met

    async def _looked(self) -> WorkspaceChange:
        """Look at the workspace; in a thread, unless that is dearer than the look."""
        if self._tracker.looked and self._tracker.size <= SMALL:
            return self._tracker.look()
        return await asyncio.to_thread(self._tracker.look)

    def _loaded(self) -> MeterState:
        if self._state is None:
            self._state = self._known.state()
        return self._state

    def _measured(
        self, act: TakenAct, state: MeterState, change: WorkspaceChange, own: frozenset[int]
    ) -> MeasuredEffect:
        trigrams = self._known.trigrams(state.letters)
        read = self._read(act, state)
        known = self._known.known(change.new)
        new = {digest: change.written[digest] for digest in change.new if digest not in known}
        noise_read, noise_written = self._noise(trigrams, read.unseen), self._noise(trigrams, new)
        found = ActFindings(
            cycle=act.cycle,
            answered=act.outcome.answered is not None,
            progressed=any(check.accepted and check.outcome in ("achieved", "partial") for check in act.goals),
            changed=bool(new) and not noise_written,
            unseen=len(read.unseen),
            finished_file=read.finished_file,
            source=read.source,
            noise_read=noise_read,
        )
        kind, after = decided(found, state, self._settings)
        checks, after = _checks(act, self._test_programs, self._began, state, after)
        words, events = self._topics(act)
        events += ("learned_something",) if self._learned(act, trigrams) else ()
        low, of_resources = resources_after(state.low, act.left)
        learnt = (read.source != "program" or bool(act.message)) and trigrams.learn(read.unseen.values())
        path = navigated_to(act.action) if act.outcome.status == "success" else None
        standing = {
            "previous_path": path or state.previous_path,
            "workspace": self._tracker.digest if self._tracker.looked else state.workspace,
            "low": low,
            "letters": dict(trigrams.letters),
        }
        self._state = after.model_copy(update=standing)
        self._known.store(_met_lines(act, read, own), words, self._state, learnt=learnt)
        return MeasuredEffect(
            kind=kind,
            paths=tuple(map(shown_path, change.paths[:SHOWN_PATHS])),
            lines=change.lines.model_copy(update={"new": len(new)}),
            information=Information(lines=len(read.lines), new=len(read.unseen), finished_file=read.finished_file),
            noise=noise_read or noise_written,
            target=target_of(act.action),
            checks=checks,
            previous_path=state.previous_path,
            opened=opened_by(act.action, act.outcome.output.text) if act.outcome.status == "success" else 0,
            lines_changed=change.lines.added + change.lines.removed,
            context=act.context,
            skills_on_offer=act.skills,
            need_events=(*events, *of_resources),
            work=act.memory.work.before(
                act.memory.open_work, self._settings.run_length, tuple(map(shown_path, change.appended[:ADDED_PATHS]))
            ),
        )

    def _noise(self, trigrams: Trigrams, lines: Mapping[int, str]) -> bool:
        settings = self._settings
        return trigrams.noise(lines.values(), least=settings.noise_letters, share=settings.noise_share)

    def _read(self, act: TakenAct, state: MeterState) -> _LinesRead:
        """The lines that the act showed: none of a failed one, of a tool's own words, or of too many programs.

        Of files those that are compared: in others the lines that the agent's own acts wrote are not known.
        """
        text, source, hits = _text_shown(act), None, {}
        lines: dict[int, str] = {}
        if act.action.kind == "TOOL" and act.outcome.status == "success":
            source = output_source(act.action)
            exhausted = source == "program" and programs_exhausted(act.cycle, state, self._settings)
            compares = self._tracker.compares
            if source == "hits":
                hits = {path: found for path, found in hits_of(text).items() if compares(normal_path(path))}
                lines = digests_of(line for found in hits.values() for line in found)
            elif source == "file" and not compares(target_of(act.action) or ""):
                lines = {}
            elif source != "words" and not exhausted:
                lines = digests_of(lines_of(text))
        lines |= digests_of(lines_of(act.message))
        known = self._known.known(lines.keys())
        unseen = {digest: line for digest, line in lines.items() if digest not in known}
        finished = False
        if unseen and source == "file":
            finished = _shows_all(act) or self._is_finished(target_of(act.action) or "", lines)
        elif unseen and source == "hits":
            fresh = [path for path, found in hits.items() if any(digest_of(line) in unseen for line in found)]
            finished = any(self._is_finished(path, lines) for path in fresh[:FILES_FINISHED])
        return _LinesRead(source, lines, unseen, finished)

    def _is_finished(self, path: str, shown: Mapping[int, str]) -> bool:
        """Whether every line of the file is known or was just shown."""
        text = text_of(read_content(self._workspace, path))
        if text is None:
            return False
        left = digests_of(lines_of(text)).keys() - shown.keys()
        return not left - self._known.known(left)

    def _topics(self, act: TakenAct) -> tuple[list[int], tuple[str, ...]]:
        """(words to be known, need events) of the messages and goals that are there for the first time."""
        texts = {f"message/{waiting.id}": waiting.text for waiting in act.memory.waiting}
        texts |= {f"goal/{id}": active.goal.statement for id, active in act.memory.goals.items()}
        fresh = {key: text for key, text in texts.items() if key not in self._met}
        self._met = set(texts)
        words: list[int] = []
        new = False
        for key, text in fresh.items():
            digests = {digest_of(word) for word in words_of(text)}
            known = self._known.known_words([digest_of(key), *digests]) | set(words)
            if digest_of(key) not in known:
                new = new or is_new_topic(digests, known)
                words += [digest_of(key), *(digests - known)]
        return words, ("new_topic",) if new else ()

    def _learned(self, act: TakenAct, trigrams: Trigrams) -> bool:
        """Whether the act wrote a note that is new, no noise, and drawn from two or more of the last acts."""
        text = act.action.args.get("text")
        if act.action.skill != "notes.remember" or act.outcome.status != "success" or not isinstance(text, str):
            return False
        lines = digests_of(lines_of(text))
        if self._noise(trigrams, lines) or not lines.keys() - self._known.known(lines.keys()):
            return False
        outputs = (one.output for one in act.memory.recent[-RECENT:] if one.action.tool not in (None, "notes", "reply"))
        return drawn_from(text, outputs) >= FROM_ACTS


def _checks(
    act: TakenAct, programs: tuple[str, ...], began: int, before: MeterState, after: MeterState
) -> tuple[tuple[CheckRun, ...], MeterState]:
    """The checks and test programs that a command ran, and the state after; `began`: the version before the act."""
    command = act.action.args.get("command") if act.action.tool == "shell" and act.action.valid else None
    if not isinstance(command, str):
        return (), after
    keys = {
        f"goal/{id}": id
        for id, active in act.memory.goals.items()
        if isinstance(active.goal.check, CommandCheck | TestsCheck) and same_command(active.goal.check.command, command)
    }
    named: dict[str, str | None] = {**keys}
    program, outcome = program_tested(command, programs), act.outcome
    if not named and program is not None:
        named = {f"program/{program}": None}
    ran = outcome.status in ("success", "error") and outcome.exit_code not in (None, *NOT_RUN)
    empty = ran and program is not None and not gave_results(program, command, outcome.output.text, outcome.exit_code)
    ran = ran and not empty
    stood = before.model_copy(update={"version": began})
    runs = tuple(
        CheckRun(goal=goal, ran=ran, no_result=empty, changed_since=stood.changed_since(key))
        for key, goal in named.items()
    )
    for key in named if ran else ():
        after = after.ran(key, before.version)
    return runs, after


def _text_shown(act: TakenAct) -> str:
    """The act's output: of a read, the lines without their numbers."""
    text = act.outcome.output.text
    return without_numbers(text) if act.action.skill == "filesystem.read" else text


def _shows_all(act: TakenAct) -> bool:
    """Whether a read showed all of the file, as it is."""
    shown = act.outcome.output
    return shown.length == len(shown.text) and without_numbers(shown.text) == shown.text


def _met_lines(act: TakenAct, read: _LinesRead, own: frozenset[int]) -> Iterable[int]:
    """The lines that the agent knows after the act: shown, written, and said."""
    said = [value for value in act.action.args.values() if isinstance(value, str)] + [act.action.text or ""]
    shown = (_text_shown(act), act.outcome.error or "", *said)
    return {*read.lines, *own, *(digest for text in shown for digest in digests_of(lines_of(text)))}
