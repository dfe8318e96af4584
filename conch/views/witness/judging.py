"""What of the unsealed rows is proven, what waits for its mark, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import msgspec

from conch.rewards import weights_version
from conch.views.witness.streamed import StreamComparison, sealed_ids
from conch.views.witness.unsealed import UnsealedAct, UnsealedRows
from conch.witness import CORRECTION, EventRow, MarkProblem, ProblemKind, score_words
from conch_schemas import ContractViolationError, WeightsSet, decode


@dataclass
class UnsealedJudgement:
    """What became of the rows that no mark seals."""

    problems: list[MarkProblem] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """Actions of which something waits for its mark, and nothing is wrong."""
    unproven: int = 0
    """Rows of a version that sealed less, which the stream has no more."""


def judge_unsealed(agent: str, unsealed: UnsealedRows, stream: StreamComparison) -> UnsealedJudgement:
    """Judge each row that no mark seals by what the stream says. A row waits where it is what the stream says, and its
    mark is still to come: the witness has not read the event, or the store has not read the mark. Neither a deadline
    nor an outbox nor a position in the store excuses a row."""
    judgement = UnsealedJudgement()
    sealed = sealed_ids(stream.unread_marks())
    for act in unsealed.acts.values():
        wrong = list(_of_act(act, stream, sealed.get(act.action, set())))
        judgement.problems += [MarkProblem(kind, agent, None, what) for kind, what in wrong]
        if act.is_early and (act.action, "act") not in stream.met:
            judgement.unproven += len(act.scores) + len(act.needs)
        if not wrong and (act.act is not None or (act.place > stream.base and not act.is_early)):
            judgement.waiting.add(act.action)
    for what, is_wrong in (
        *_of_contexts(unsealed, stream),
        *_of_events(unsealed, stream, sealed),
        *_of_prompts(unsealed, stream),
        *_of_older_needs(unsealed, stream),
    ):
        if is_wrong:
            judgement.problems.append(MarkProblem(is_wrong, agent, None, what))
        else:
            judgement.unproven += 1
    return judgement


_Wrong = tuple[ProblemKind, str]
"""(kind, sentence)."""


def _of_act(act: UnsealedAct, stream: StreamComparison, sealed: set[str]) -> Iterator[_Wrong]:
    """What is wrong with an act."""
    if act.act is not None and not _waits(stream.acts.get(act.action), stream, "act" in sealed):
        yield "unwitnessed", f"Action {act.action} has no mark{_lacking(act.action in stream.acts, stream)}."
    total_waits = yield from _of_total(act, stream, sealed)
    said = stream.facts.get(act.action, {})
    for name in (*act.scores, *act.needs):
        if act.is_early:
            if name in said or (act.action, "act") not in stream.met:
                continue
            if (act.action, name) in stream.met:
                yield "altered", f"{_fact_words(act, name)} in the store is not the one on the stream."
            else:
                yield "unwitnessed", f"{_fact_words(act, name)} has no mark, and the stream does not have it."
            continue
        if act.is_older and name in act.needs:
            continue  # as `_of_older_needs` says
        is_open = act.sealed_revision == 0 and (total_waits or not act.revision)
        if not _waits(said.get(name), stream, name in sealed or (is_open and name in said)):
            yield "unwitnessed", f"{_fact_words(act, name)} has no mark{_lacking(name in said, stream)}."


def _fact_words(act: UnsealedAct, name: str) -> str:
    words = score_words(name) if name in act.scores else "the change of needs"
    return f"{words[0].upper()}{words[1:]} of action {act.action}"


def _of_total(act: UnsealedAct, stream: StreamComparison, sealed: set[str]) -> Generator[_Wrong, None, bool]:
    """What is wrong with the total of an act; returns whether the total waits for its mark."""
    what = f"Revision {act.revision} of the total of action {act.action}"
    if not act.revision and not act.waits:
        yield "gone", f"The experience of action {act.action} is gone from the store."
    if not act.is_total:
        if not act.follows:
            yield "altered", f"{what} does not follow from its scores by the weight set in force, though it was sealed."
        return False
    if act.repeats:
        yield "altered", f"{what} is the total that was sealed as revision {act.sealed_revision}."
    elif not act.follows:
        yield "altered", f"{what} does not follow from its scores by the weight set in force."
    elif act.is_early:
        return False  # its marks seal no total
    elif act.place <= stream.base:
        return False  # recorded before the stream was lost: it follows from what is sealed
    else:
        recorded = stream.revisions.get(act.action, {}).get(act.revision)
        is_coming = str(act.revision) in sealed or (act.is_unpublished and stream.was_read)
        if _waits(recorded, stream, is_coming):
            return True
        yield "unwitnessed", f"{what} has no mark{_lacking(recorded is not None, stream)}."
    return False


def _waits(seq: int | None, stream: StreamComparison, is_coming: bool) -> bool:
    """Whether the mark of what the stream says at this sequence is still to come."""
    return is_coming or (seq is not None and seq > stream.witness)


def _lacking(is_there: bool, stream: StreamComparison) -> str:
    if is_there or not stream.was_read:
        return ""
    return ", and the stream does not have what the store has"


_Row = tuple[str, ProblemKind | None]
"""(a sentence, its kind), or (what a row is, None) where nothing proves it."""


def _of_contexts(unsealed: UnsealedRows, stream: StreamComparison) -> Iterator[_Row]:
    words = {"claims": "list of claims", "messages": "prompt", CORRECTION: "corrected answer"}
    for action, kind in unsealed.contexts:
        what = f"The {words.get(name := kind.partition(':')[0], name)} of action {action}"
        seq = stream.contexts.get((action, kind))
        if (action, kind) in stream.met and seq is None:
            yield f"{what} in the store is not the one on the stream.", "altered"
        elif action in unsealed.new_acts and not _waits(seq, stream, False):
            yield f"{what} has no mark.", "unwitnessed"
        elif seq is None:
            yield what, None


def _of_older_needs(unsealed: UnsealedRows, stream: StreamComparison) -> Iterator[_Row]:
    """Changes of needs without a score, which an earlier version did not seal."""
    for act in unsealed.acts.values():
        for name in act.needs if act.is_older and not act.is_early else ():
            what = f"The change of needs {name} of action {act.action}"
            if name in stream.facts.get(act.action, {}):
                continue
            if (act.action, name) in stream.met:
                yield f"{what} in the store is not the one on the stream.", "altered"
            else:
                yield what, None


def _of_events(unsealed: UnsealedRows, stream: StreamComparison, sealed: dict[str, set[str]]) -> Iterator[_Row]:
    for identity, row in unsealed.events.items():
        if identity in stream.events:
            if stream.is_known and row.seq != stream.base + stream.events[identity]:
                yield f"{row.words} has the place {row.seq}, which is not its place in the stream.", "altered"
        elif identity in unsealed.contradicted:
            yield f"{row.words} in the store is not what was recorded.", "altered"
        elif identity in stream.met:
            yield f"{row.words} in the store is not the one on the stream.", "altered"
        elif row.table == "weights" and _is_version(row) is False:
            yield f"{row.words} in the store is not what its version was taken over.", "altered"
        elif row.table == "weights" and _is_version(row) and not unsealed.must_be_sealed(row.seq):
            pass  # the sealed totals name the version
        elif identity not in sealed and row.table != "reviews" and not unsealed.must_be_sealed(row.seq):
            yield row.words, None
        elif identity not in sealed:
            yield f"{row.words} has no mark, and the stream does not have it.", "unwitnessed"


def _is_version(row: EventRow) -> bool | None:
    """Whether a weight set is what its version says, a digest; None: the version is no digest of ours."""
    try:
        event = decode(row.body)
    except (ContractViolationError, msgspec.DecodeError):
        return False
    if not isinstance(event, WeightsSet):
        return False
    is_digest = len(event.version) == 16 and all(letter in "0123456789abcdef" for letter in event.version)
    return weights_version(event.parts) == event.version if is_digest else None


def _of_prompts(unsealed: UnsealedRows, stream: StreamComparison) -> Iterator[_Row]:
    for policy, (_, place) in unsealed.prompts.items():
        what = f"The system prompt of policy {policy}"
        if policy in stream.prompts:
            continue
        if ("prompt", policy) in stream.met:
            yield f"{what} in the store is not the one on the stream.", "altered"
        elif unsealed.must_be_sealed(place):
            yield f"{what} has no mark, and the stream does not have it.", "unwitnessed"
        else:
            yield what, None
