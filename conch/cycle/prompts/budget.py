"""Fits the sections of a prompt to a budget of tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar, overload

from conch.config import SERVED, OneMindSettings
from conch.text import estimated_tokens

T = TypeVar("T")

MESSAGE_TOKENS = 4
"""Tokens that a chat template adds to each message, about."""
DEFAULT_TOKENS = 8000
"""Budget of a prompt for a mind whose context window is not known."""
LOCAL_TOKENS = 512
"""Most for the local mind, whatever its context window: a small model does not find its way in more, and two cores read
100 tokens a second. For a larger model of your own, `mind.prompt_tokens` says more."""
UNREAD_KINDS = ("reflex", "scripted")
"""Kinds of minds that do not read a prompt's text."""
UNREAD_TOKENS = LOCAL_TOKENS
"""Budget of a prompt that is not read as text but recorded, for training: of a small model. It is the larger part of an
event."""
LEAST_TOKENS = 256
"""Smallest budget that is derived."""
NOTE_TOKENS = 16
"""Tokens that are held back in a section for the note that a part of it was left out."""
LEAST_BODY = 32
"""A text is left out rather than shortened to fewer tokens than this."""


def prompt_budget(settings: OneMindSettings) -> int:
    """Most tokens of a prompt, with its system prompt: `mind.prompt_tokens`, as far as the context window has room for
    it beside the reply; else derived from the window."""
    if settings.kind in UNREAD_KINDS:
        return settings.prompt_tokens or UNREAD_TOKENS
    room = _room(settings)
    if settings.prompt_tokens is not None:
        return settings.prompt_tokens if room is None else min(settings.prompt_tokens, room)
    if settings.kind in SERVED:
        return min(LOCAL_TOKENS, window_budget(settings))
    return window_budget(settings)


def window_budget(settings: OneMindSettings) -> int:
    """Most tokens of a prompt by the context window: `mind.prompt_share` of it, as far as it has room beside the reply;
    DEFAULT_TOKENS where it is not known."""
    window, room = settings.context_window, _room(settings)
    if window is None or room is None:
        return DEFAULT_TOKENS
    return max(LEAST_TOKENS, min(room, int(settings.prompt_share * window)))


def _room(settings: OneMindSettings) -> int | None:
    """Tokens of the context window beside the reply, at least half of it; None where the window is not known."""
    window = settings.context_window
    return None if window is None else window - settings.reply_tokens


@dataclass(frozen=True)
class SectionEntry:
    """A part of a section that is shown, shortened or left out by itself."""

    head: str = ""
    """Lines that are always shown with it."""
    body: str = ""
    """A text that is quoted behind the head, and may be shortened."""
    tail: str = ""
    """Lines behind the body."""

    @cached_property
    def whole(self) -> str:
        """All of it, the body quoted, nothing in it a control token."""
        return neutral(_joined(self.head, quoted(self.body), self.tail))

    def within(self, room: int) -> str | None:
        """It in at most `room` tokens, with a shortened body if need be; None where that leaves too little."""
        if self.tokens <= room:
            return self.whole
        left = room - estimated_tokens(neutral(_joined(self.head, self.tail))) - 1
        while self.body and left >= LEAST_BODY:
            shown = neutral(_joined(self.head, quoted(_shortened(self.body, left)), self.tail))
            if (over := estimated_tokens(shown) - room) <= 0:
                return shown
            left -= max(over, left // 16)
        return None

    @cached_property
    def tokens(self) -> int:
        """Tokens of all of it."""
        return estimated_tokens(self.whole)


class MadeEntries(Sequence[SectionEntry]):
    """The entries of `items`, each made by `make` when it is first looked at: a small prompt looks at few of many."""

    def __init__(self, items: Sequence[T], make: Callable[[int, T], SectionEntry]) -> None:
        """`make` takes the place of an item and the item."""
        self._makes = [partial(make, place, item) for place, item in enumerate(items)]
        self._made: dict[int, SectionEntry] = {}

    def __len__(self) -> int:
        return len(self._makes)

    @overload
    def __getitem__(self, place: int) -> SectionEntry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SectionEntry]: ...
    def __getitem__(self, place: int | slice) -> SectionEntry | Sequence[SectionEntry]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        if place not in self._made:
            self._made[place] = self._makes[place]()
        return self._made[place]


@dataclass(frozen=True)
class PromptSection:
    """A section of a prompt before it is fitted."""

    name: str
    title: str
    """Its first line, of this program; empty: it has none."""
    entries: Sequence[SectionEntry]
    priority: int
    """Sections of a lower number get their tokens first."""
    share: float
    """Share of the budget, 0..1, that it has before sections of less priority; what those leave is given out again."""
    newest_first: bool = False
    """Whether the last entries are the ones to keep."""


@dataclass(frozen=True)
class FittedSection:
    """A section as it is in the prompt."""

    name: str
    text: str
    tokens: int
    """By the estimate."""
    entries: int
    """Entries before it was fitted."""
    left_out: int
    """Entries that are not shown."""
    shortened: int
    """Entries that are shown in part."""


class _Fitting:
    """One section while it is fitted: entries are taken in the order of their worth."""

    def __init__(self, section: PromptSection) -> None:
        self.section = section
        places = range(len(section.entries))
        self._order = list(reversed(places) if section.newest_first else places)
        self._shown: dict[int, str] = {}
        self._room = -1
        self.text = ""
        """What the entries chosen give."""
        self.tokens = 0
        """Tokens of `text`."""

    def fit(self, room: int) -> int:
        """Choose the entries for `room` tokens anew; returns the tokens used."""
        if room == self._room:
            return self.tokens
        self._room = room
        section = self.section
        self._shown = {}
        used = estimated_tokens(section.title) + 1
        if self._exceeds(room - used):
            used += NOTE_TOKENS
        for place in self._order:
            text = section.entries[place].within(room - used - 1)
            if text is None:
                break
            self._shown[place] = text
            used += estimated_tokens(text) + 1
        self.text = self._text()
        self.tokens = estimated_tokens(self.text) + 1 if self.text else 0
        return self.tokens

    def _exceeds(self, room: int) -> bool:
        """Whether the entries together have more tokens. Looks at no more of them than it takes to tell."""
        for place in self._order:
            room -= self.section.entries[place].tokens + 1
            if room < 0:
                return True
        return room < 0

    @property
    def whole(self) -> bool:
        """Whether every entry is shown as it is."""
        entries = self.section.entries
        return len(self._shown) == len(entries) and all(entries[at].whole == text for at, text in self._shown.items())

    def _text(self) -> str:
        if not self._shown:
            return ""
        shown = [self._shown[place] for place in sorted(self._shown)]
        missing = len(self.section.entries) - len(shown)
        if missing:
            kind = "earlier" if self.section.newest_first else "more"
            note = f"({missing} {kind} left out for want of room)"
            shown.insert(0, note) if self.section.newest_first else shown.append(note)
        return _joined(self.section.title, *shown)

    def fitted(self) -> FittedSection:
        entries = self.section.entries
        short = sum(text != entries[place].whole for place, text in self._shown.items())
        return FittedSection(
            self.section.name, self.text, self.tokens, len(entries), len(entries) - len(self._shown), short
        )


def fitted(sections: Sequence[PromptSection], budget: int) -> tuple[FittedSection, ...]:
    """The sections that have an entry, in their order, in at most `budget` tokens together.

    By priority, each section gets what it needs up to its share; then, by priority again, what is left. A section that
    gets no entry is listed with an empty text.
    """
    fittings = [_Fitting(section) for section in sections if section.entries]
    by_priority = sorted(fittings, key=lambda one: one.section.priority)
    used: dict[str, int] = {}
    for one in by_priority:
        room = min(budget - sum(used.values()), int(budget * one.section.share))
        used[one.section.name] = one.fit(room)
    for one in by_priority:
        if not one.whole:
            others = sum(tokens for name, tokens in used.items() if name != one.section.name)
            used[one.section.name] = one.fit(budget - others)
    return tuple(one.fitted() for one in fittings)


def quoted(text: str) -> str:
    """`text` with a mark before each line, for all of Unicode's line ends."""
    return "\n".join(f"> {line}" for line in text.splitlines())


_CONTROL = re.compile(
    r"<(?=[|\uff5c]|/?(?:s|bos|eos|start_of_turn|end_of_turn|think|tool_call|tool_response)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|gMASK)\])"
)
"""The first character of a text that a tokenizer may read as a control token: as the end of the message, or as the
beginning of another one. llama.cpp and vLLM look for them in the whole prompt, also inside a message."""


def neutral(text: str) -> str:
    """`text` with a blank in each text that could be read as a control token of a chat template."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)


def listed(texts: Iterable[str]) -> tuple[SectionEntry, ...]:
    """Each text on one line, for all of Unicode's line ends; each run of white space becomes one blank."""
    return tuple(SectionEntry(head=f"- {' '.join(text.split())}") for text in texts)


def _shortened(text: str, tokens: int) -> str:
    """Beginning and end of a text that has more than `tokens` tokens, in about as many."""
    kept = len(text) * tokens // max(1, estimated_tokens(text)) - 40  # the line between them
    half = max(1, kept // 2)
    return f"{text[:half]}\n[… {max(0, len(text) - 2 * half)} characters left out …]\n{text[-half:]}"


def _joined(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
