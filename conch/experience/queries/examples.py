"""Experiences as training reads them: a few fields of the stored bodies, decoded without validating the whole fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from conch.experience.opened import LARGEST, OpenStore
from conch.experience.queries.bodies import skill_of
from conch_schemas import ContractViolationError


class ExampleDecoding(msgspec.Struct, frozen=True, gc=False):
    """What of `Decoding` training goes by."""

    state_key: str = ""
    prompt_sha256: str = ""
    constraint: str = "free"
    propensity: float | None = None
    engine: str = ""
    unread: int | None = None


class ExampleAction(msgspec.Struct, frozen=True, gc=False):
    """An action as it was parsed, without its words."""

    kind: str
    valid: bool
    tool: str | None = None
    args: dict[str, object] = {}

    @property
    def skill(self) -> str:
        """As an `Action` says it."""
        return skill_of(self)


class ExampleOutcome(msgspec.Struct, frozen=True, gc=False):
    """The status of an outcome."""

    status: str


class ExampleScore(msgspec.Struct, frozen=True, gc=False):
    """A component of a verdict, without its words."""

    component: str
    value: float | None
    weight: float
    status: str
    role: str = "paid"


class ExampleVerdict(msgspec.Struct, frozen=True, gc=False):
    """What an act is worth."""

    scores: tuple[ExampleScore, ...]
    total: float
    coverage: float
    complete: bool
    weights: str


class ExampleMessage(msgspec.Struct, frozen=True, gc=False):
    """A message of a prompt."""

    role: str
    content: str


class ExampleTurn(msgspec.Struct, frozen=True, gc=False):
    """The turn of a team's role."""

    role: str


class ExampleData(msgspec.Struct, frozen=True, gc=False):
    """What of `ActionTaken` training goes by."""

    action: ExampleAction
    raw: str
    raw_length: int
    outcome: ExampleOutcome
    needs: dict[str, float]
    model: str
    tools: tuple[str, ...] = ()
    thought: str = ""
    step: int = 0
    episode: str | None = None
    terminal: bool = False
    decoding: ExampleDecoding | None = None
    team: ExampleTurn | None = None
    """None: the agent is no team."""


class ExampleAct(msgspec.Struct, frozen=True, gc=False):
    """An act: its envelope and its data."""

    action_id: str = msgspec.field(name="actionid")
    agent: str
    cycle: int
    data: ExampleData
    policy: str | None = None


class Example(msgspec.Struct, frozen=True, gc=False):
    """An experience as of its latest revision, as far as training goes by it."""

    act: ExampleAct
    verdict: ExampleVerdict
    revision: int
    seq: int
    acted: float
    """Seconds since the epoch."""
    messages: tuple[ExampleMessage, ...]
    """The prompt without its system prompt; empty where it is not known."""
    number: int
    """The act's number in this store: what `ExampleReader.numbered` takes."""


class ExampleMark(msgspec.Struct, frozen=True, gc=False):
    """Where an experience belongs, without its words."""

    number: int
    agent: str
    acted: float
    total: float
    state_key: str
    prompt_hash: str
    seq: int


class _MarkedDecoding(msgspec.Struct, frozen=True, gc=False):
    state_key: str = ""
    prompt_sha256: str = ""


class _MarkedData(msgspec.Struct, frozen=True, gc=False):
    decoding: _MarkedDecoding | None = None


class _MarkedAct(msgspec.Struct, frozen=True, gc=False):
    data: _MarkedData


_UNMARKED: Final = _MarkedDecoding()
_act: Final = msgspec.json.Decoder(ExampleAct).decode
_marked: Final = msgspec.json.Decoder(_MarkedAct).decode
_verdict: Final = msgspec.json.Decoder(ExampleVerdict).decode
_messages: Final = msgspec.json.Decoder(tuple[ExampleMessage, ...]).decode
# The bodies are read as they are, and unpacked a page at a time.
_EXAMPLE: Final = """
    SELECT e.act, e.seq, e.revision, e.acted, e.verdict, a.body,
    (SELECT body FROM contexts c WHERE c.act = e.act AND c.kind = 'messages')
    FROM experiences e JOIN acts a ON a.act = e.act """
_PROMPTLESS: Final = """
    SELECT e.act, e.seq, e.revision, e.acted, e.verdict, a.body, NULL
    FROM experiences e JOIN acts a ON a.act = e.act """
_NEXT: Final = "WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?"
_COUNT: Final = "SELECT count(*), coalesce(max(seq), 0) FROM experiences"
_PLACE: Final = "SELECT seq FROM experiences ORDER BY seq LIMIT 1 OFFSET ?"
_MARKS: Final = """
    SELECT e.act, e.seq, e.agent, e.acted, e.total, unpacked(a.body)
    FROM experiences e JOIN acts a ON a.act = e.act WHERE e.seq > ? ORDER BY e.seq LIMIT ?"""
_SYSTEMS: Final = """
    SELECT substr(kind, 8), unpacked(body) FROM contexts
    WHERE act = 0 AND kind >= 'policy:' AND kind < 'policy;'"""
_CORRECTIONS: Final = """
    SELECT a.action_id, unpacked(c.body) FROM contexts c JOIN acts a ON a.act = c.act
    WHERE (c.act, c.kind) IN (SELECT act, kind FROM contexts WHERE kind >= 'correction:' AND kind < 'correction;')
    ORDER BY c.kind"""
"""By the index over the kinds, which is read whole; the bodies are read of the corrections alone."""
_PAGE: Final = 128
"""Experiences that are read at one time: what is made of them stays in the processor's cache. Of 500 they take a fifth
more of its time, and of 50 the statements do."""


class SqlExamples:
    """The `ExampleReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def walk(self, *, prompts: bool = True, after: int = 0, upto: int | None = None) -> Iterator[Example]:
        for page in self._pages(_EXAMPLE if prompts else _PROMPTLESS, after, upto):
            yield from page

    def pages(self, *, after: int = 0, upto: int | None = None) -> Iterator[list[Example]]:
        return self._pages(_PROMPTLESS, after, upto)

    def _pages(self, sql: str, after: int, upto: int | None) -> Iterator[list[Example]]:
        seq = after
        while page := self._read(sql + _NEXT, seq, LARGEST if upto is None else upto, _PAGE):
            yield page
            seq = page[-1].seq

    def _read(self, sql: str, *values: object) -> list[Example]:
        unpacked = self._file.unpacked
        with self._file.reading() as db, self._file.intact():
            return [
                Example(
                    _act(unpacked(body)),
                    _verdict(unpacked(verdict)),
                    revision,
                    seq,
                    acted,
                    () if messages is None else _messages(unpacked(messages)),
                    number,
                )
                for number, seq, revision, acted, verdict, body, messages in db.execute(sql, values).fetchall()
            ]

    def marks(self) -> Iterator[ExampleMark]:
        seq = 0
        while rows := self._file.rows(_MARKS, seq, _PAGE):
            with self._file.intact():
                page = [_mark(row) for row in rows]
            yield from page
            seq = rows[-1][1]

    def halves(self) -> tuple[int, int, int]:
        with self._file.snapshot():
            count, last = self._file.row(_COUNT)
            middle = self._file.row(_PLACE, (count - 1) // 2)[0] if count else 0
        return count, middle, last

    def numbered(self, numbers: Sequence[int]) -> list[Example]:
        with self._file.snapshot():
            return [one for number in numbers for one in self._read(_EXAMPLE + "WHERE e.act = ?", number)]

    def systems(self) -> dict[str, str]:
        return dict(self._file.rows(_SYSTEMS))

    def corrections(self) -> dict[str, str]:
        return dict(self._file.rows(_CORRECTIONS))


def _mark(row: Sequence[Any]) -> ExampleMark:
    number, seq, agent, acted, total, body = row
    if (type(seq), type(acted), type(total)) != (int, float, float):  # a column of SQLite holds a value of any type
        raise ContractViolationError("an experience whose figures are no numbers")
    decoding = _marked(body).data.decoding or _UNMARKED
    return ExampleMark(number, agent, acted, total, decoding.state_key, decoding.prompt_sha256, seq)
