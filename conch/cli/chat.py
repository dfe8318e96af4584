"""`conch chat`: a conversation with an agent that runs."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from conch.cli.chat_approval import QUESTION, decision_in
from conch.cli.common import CommonOptions, emit, open_bus, open_store, say, warn
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named
from conch.cli.wait_line import WaitLine
from conch.cli.waiting import waits_words
from conch.errors import BusUnreachableError, ConchError, NoAnswerError, StoreError, UsageError
from conch.requests import (
    APPROVAL,
    AgentWorks,
    AnswerDraft,
    AnswerGiven,
    AnswerMarked,
    AnswerRewarded,
    ApprovalAsked,
    ApprovalSettled,
    ChatSession,
    MessageTaken,
    decide_act,
    publish_rating,
    score_range,
)
from conch.tasks import OwnedTasks, race
from conch.text import cut, safe_text, well_formed
from conch.views import ChatLine, chat_line, decision_word, signed, waiting_act_shown
from conch_schemas import HUMAN_SCORER, SESSION_PATTERN

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.requests import ChatStep
    from conch_schemas import ActAsked, AnswerRated

MOST_LINE = 64 * 1024
"""Most bytes of one line of the person; the rest of a longer one is another line."""
RATINGS: dict[str, Literal["satisfied", "unsatisfied", "corrected", "stop"]] = {
    "/up": "satisfied",
    "/down": "unsatisfied",
    "/correct": "corrected",
    "/stop": "stop",
}
PATIENCE_SECONDS = 3.0
"""How long a pipe waits for an agent that is paused, or waits at a limit of its budget: what is kept of it for people
is free at once, so that it is used up as well."""
AT_ONCE = ("paused", "approval", "budget")
"""States of an agent that are said at once: a person can do something about them."""
QUIET_SECONDS = 1.0
"""Seconds after a message before a pipe's stderr says what an agent that works does: most answers of a quick mind come
earlier. A state in which the agent answers nothing is said at once."""
HELP = (
    "/up [why], /down [why] rate the last answer; /correct TEXT is the answer that would have been right; "
    "/stop [why] suggests that the agent stops what it does; /quit ends the conversation"
)


async def chat(
    *,
    session: Annotated[str | None, Parameter(help="The conversation to go on with; none: a new one.")] = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Talk with an agent that runs: each line is a message; its answer comes with its reward and its mark.

    A line that begins with / is a command: /up [why], /down [why], /correct TEXT, /stop [why] rate the last answer,
    /help, /quit. On a terminal you are asked about an act that waits for your approval: y or n, then the reason. With
    --json each step is a line: the message, what the agent does, an act that waits, the answer as it grows, the answer,
    its reward, its mark. It ends with the input. In a pipe, an answer is not waited for where the agent is
    paused, or its budget used up: the message stays with the agent, and the exit code is 1.
    """
    home, settings = common.existing(), common.settings()
    name = agent_named(home, settings, agent)
    if session is not None and not re.fullmatch(SESSION_PATTERN, session):
        raise UsageError(
            f"--session {session[:60]!r}: give 1 to 128 letters, digits, '.', '_', ':' and '-', "
            "the first a letter or a digit"
        )
    if home.running() is None and settings.bus.url is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: conch run starts one, --home names another")
    async with open_bus(home, settings) as bus:
        runs = (lambda: home.running() is not None) if settings.bus.url is None else (lambda: True)
        talk = ChatSession(bus, name, session or secrets.token_hex(4), runs)
        shown: _JsonChat | _PrintedChat = _JsonChat(talk.session) if common.json else _PrintedChat(name, talk.session)
        await _Chat(common, bus, talk, shown).run()


@dataclass
class _Chat:
    """The person's lines, one after the other."""

    common: CommonOptions
    bus: Bus
    talk: ChatSession
    shown: _JsonChat | _PrintedChat
    lines: _InputLines = field(default_factory=lambda: _InputLines())
    unanswered: str = ""
    """Why the last message that was not waited for has no answer; empty: each has one."""

    async def run(self) -> None:
        """Until /quit, or the end of the input. Raises ConchError when the agent cannot be reached, NoAnswerError where
        an answer was not waited for."""
        self.shown.begin()
        while (line := await self.lines.next(self.shown.prompt)) is not None and line.strip() != "/quit":
            try:
                await self._do(line.strip())
            except BusUnreachableError:
                raise
            except ConchError as error:
                self.shown.refused(str(error))
        if self.unanswered:
            raise NoAnswerError(f"no answer: {self.unanswered}; the message stays with it")

    async def _do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if not line:
            return
        if word == "/help":
            self.shown.refused(HELP)
        elif word in RATINGS:
            self.shown.rated(await self._rate(RATINGS[word], rest))
        elif line.startswith("/") and not line.startswith("//"):
            raise UsageError(f"there is no command {word[:40]}: {HELP}")
        else:
            text = cut(well_formed(line.removeprefix("/") if line.startswith("//") else line)).text
            await self._turn(text)

    async def _turn(self, text: str) -> None:
        """One message to its answer. On a terminal the person is asked about each act that waits for an approval, while
        the turn goes on: another person's decision, or the time-out, ends the question."""
        settled, wait = asyncio.Event(), _StandingStill()
        async with OwnedTasks() as tasks, aclosing(self.talk.turn(text)) as steps:
            question: asyncio.Task[None] | None = None
            async for step in steps:
                if isinstance(step, ApprovalSettled) and question is not None:
                    settled.set()
                    await question
                    question = None
                self.shown.step(step)
                if not self.shown.prompt and isinstance(step, AgentWorks) and wait.is_over(step):
                    self.unanswered = waits_words(self.talk.agent, step.state, step.why)
                    return
                if isinstance(step, ApprovalAsked) and self.shown.prompt:
                    settled.clear()
                    question = tasks.start(self._approve(step.asked, settled), name="conch.chat.approval")
        self.shown.over()

    async def _approve(self, asked: ActAsked, settled: asyncio.Event) -> None:
        """Ask for a decision on the act until there is one, or the input ends: then the act waits on."""
        home, settings = self.common.existing(), self.common.settings()
        reachable, act = home.running() is not None or settings.bus.url is not None, waiting_act_shown(asked)
        decision = None
        while decision is None:
            line = await self._line_before(settled)
            if line is None:
                self.shown.refused("" if settled.is_set() else f"conch approve {act.id} decides on it later")
                return
            decision = decision_in(line)
        try:
            await decide_act(self.bus, home, act.agent, act.id, *decision, reachable=reachable)
        except ConchError as error:
            self.shown.refused(str(error))

    async def _line_before(self, settled: asyncio.Event) -> str | None:
        """The answer to QUESTION; None: the act was decided on before, or the input has ended."""

        async def over() -> None:
            await settled.wait()

        return await race({"conch.chat.line": self.lines.next(QUESTION), "conch.chat.settled": over()})

    async def _rate(self, rating: Literal["satisfied", "unsatisfied", "corrected", "stop"], text: str) -> AnswerRated:
        act = self.talk.answered
        if act is None:
            raise UsageError("there is no answer to rate in this conversation yet: say something first")
        limits, versions, whole = score_range(APPROVAL, self.common.settings()), [], None
        try:
            store = open_store(self.common.existing(), self.common.settings())
        except StoreError:
            pass  # of a run whose store is elsewhere: its earlier scores are not known here
        else:
            try:
                versions = store.backfill.versions(str(act.action_id), HUMAN_SCORER, APPROVAL)
                whole = store.cycles.get(act.agent, act.cycle or 0)
            finally:
                store.close()
        fact, _ = await publish_rating(self.bus, act, rating, text, limits, versions, whole)
        return fact


@dataclass
class _StandingStill:
    """For how long the agent of a turn has been paused, or waited at a limit of its budget."""

    since: float | None = None
    """By the monotonic clock; None: it does not."""

    def is_over(self, step: AgentWorks) -> bool:
        """Whether it has for PATIENCE_SECONDS, as of this step."""
        now = time.monotonic()
        self.since = (now if self.since is None else self.since) if step.state in ("paused", "budget") else None
        return self.since is not None and now - self.since >= PATIENCE_SECONDS


class _InputLines:
    """The lines of stdin: of a terminal, a pipe or a file, read without a thread that could not be ended."""

    def __init__(self) -> None:
        self._buffer, self._ended = b"", False

    async def next(self, prompt: str) -> str | None:
        """The next line without its end; None at the end of the input."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        while b"\n" not in self._buffer and len(self._buffer) < MOST_LINE and not self._ended:
            await _readable(sys.stdin.fileno())
            chunk = os.read(sys.stdin.fileno(), MOST_LINE)
            self._buffer, self._ended = self._buffer + chunk, not chunk
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(sys.stdin.encoding, errors="replace")


async def _readable(number: int) -> None:
    """Wait until a file can be read. A plain file always can."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(number, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(number)


class _JsonChat:
    """A line of JSON for each step."""

    prompt = ""

    def __init__(self, session: str) -> None:
        self._session, self._last = session, ""

    def begin(self) -> None:
        """Nothing comes before the first step."""

    def step(self, step: ChatStep) -> None:
        """A draft that says no more than the one before is left out, and so is a phase that goes on."""
        line = chat_line(self._session, step)
        told = f"{line.step} {line.phase} {line.state} {line.text}"
        if line.step not in ("works", "draft") or told != self._last:
            emit(line)
        self._last = told

    def over(self) -> None:
        """A turn is over with its last step."""

    def rated(self, fact: AnswerRated) -> None:
        """The rating."""
        emit(chat_line(self._session, fact))

    def refused(self, why: str) -> None:
        """A line that could not be done."""
        emit(ChatLine(step="refused", session=self._session, text=why))


@dataclass
class _PrintedChat:
    """Words for a person: the answer as it comes, then its reward and its mark."""

    agent: str
    session: str
    _written: str = ""
    """What of the answer is on the terminal."""
    _last: dict[str, str] = field(default_factory=dict)
    _line: WaitLine = field(default_factory=lambda: WaitLine(enabled=sys.stdout.isatty()))
    _waits: bool = False
    """Whether an act that waits for an approval is shown."""
    _warned: str = ""
    """What stderr said last of the agent."""
    _since: float = 0.0
    """When the message was sent, by the monotonic clock."""

    @property
    def prompt(self) -> str:
        """Before a person's line, on a terminal."""
        return "> " if sys.stdin.isatty() and sys.stdout.isatty() else ""

    def begin(self) -> None:
        """Name the conversation, and on a terminal what a person may do; in a pipe, where stdout has the answers alone,
        the name is on stderr."""
        named = f"conversation {self.session} with {self.agent} (conch chat --session {self.session} goes on with it)"
        if not self.prompt:
            warn(named)
            return
        say(named)
        say(HELP)

    def step(self, step: ChatStep) -> None:
        """Show a step."""
        match step:
            case MessageTaken():
                self._since, self._warned = time.monotonic(), ""
            case AgentWorks():
                if not self._written and not self._waits:
                    self._works(step)
            case ApprovalAsked():
                self._asked(step.asked)
            case ApprovalSettled():
                self._waits = False
                reason = f": {step.decision.why}" if step.decision.why else ""
                named = waiting_act_shown(step.asked).id
                self._note(f"  the act {named} is {decision_word(step.decision)}{reason}")
            case AnswerDraft():
                if self.prompt:
                    self._grow(step.text)
            case AnswerGiven():
                self._grow(step.answer.text)
                self._line.clear()
                sys.stdout.write("\n")
                sys.stdout.flush()
                self._written = ""
                self._last = {"cycle": str(step.answer.cycle)}
            case AnswerRewarded():
                so_far = "" if step.experience.complete else " so far"
                self._last["reward"] = f"reward {signed(step.experience.total)}{so_far}"
            case AnswerMarked():
                self._last["mark"] = f"mark {step.mark.sequence}"

    def _works(self, step: AgentWorks) -> None:
        """What the agent does: a line that is renewed on a terminal; in a pipe a line on stderr for each change."""
        if sys.stdout.isatty():
            self._line.show(works_words(self.agent, step))
            return
        words = works_words(self.agent, step, seconds=False)
        is_said = step.state in AT_ONCE or time.monotonic() - self._since >= QUIET_SECONDS
        if is_said and words != self._warned:
            self._warned = words
            warn(words)

    def _asked(self, asked: ActAsked) -> None:
        """The act that waits. In a pipe nobody is asked: the command that decides is named."""
        act = waiting_act_shown(asked)
        self._line.clear()
        self._waits = True
        self._note(f"{self.agent} waits for your approval until {act.until:%F %H:%M:%S} UTC: {act.words}")
        self._note(
            f"  {act.why}" + ("" if self.prompt else f"; conch approve {act.id} or conch approve {act.id} --deny")
        )

    def _note(self, text: str) -> None:
        """A line that is no part of an answer: stdout of a pipe has answers alone."""
        if sys.stdout.isatty():
            say(text)
        else:
            warn(text)

    def _grow(self, text: str) -> None:
        """Write what is new; an answer that begins otherwise than its draft is written anew."""
        self._line.clear()
        if not text.startswith(self._written):
            sys.stdout.write("\n")
            self._written = ""
        sys.stdout.write(safe_text(text[len(self._written) :]))
        sys.stdout.flush()
        self._written = text

    def over(self) -> None:
        """The line below an answer."""
        cycle = self._last.pop("cycle", "")
        known = [self._last.get("reward", f"reward not known yet (conch cycle show {cycle})"), self._last.get("mark")]
        say("  " + " · ".join([*filter(None, known), f"cycle {cycle}"]))

    def rated(self, fact: AnswerRated) -> None:
        """The rating, in a line."""
        say(f"  rated cycle {fact.cycle}: {fact.rating}")

    def refused(self, why: str) -> None:
        """A line that could not be done."""
        say(f"  {why}")


def works_words(agent: str, step: AgentWorks, *, seconds: bool = True) -> str:
    """What the agent does, or waits for, in a line; `seconds`: with those that its mind has been asked for."""
    if step.state != "mind" and (waits := waits_words(agent, step.state, step.why)):
        return waits
    doing = {"think": "thinks", "decide": "decides", "act": "acts", "reflect": "reflects"}.get(step.phase, "works")
    return f"{agent} {doing}" + (f", {step.seconds:.0f} s" if seconds and step.seconds >= 1 else "")
