"""The rows of a format out of a store, and the reason of everything that is left out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from conch.actions import Registry
from conch.data.acts import ROWS, Redact, Workshop, unfit, unread_replies
from conch.data.corrected import corrected_pair, corrected_row
from conch.data.episodes import episode_rows
from conch.data.near import NearDuplicates
from conch.data.pairs import StateGroups, fork_pairs, forked_replies, repaired_pair, state_pairs
from conch.data.row import PAIRED, Format, LeftOut, Row
from conch.data.selection import Selection
from conch.data.survey import Survey, survey_of
from conch.data.synthetic import synthetic_rows
from conch.experience import Example, ExperienceReader
from conch.text import well_formed

ALL: Final = Selection()
_WHOLE: Final = frozenset(("cycles", "minari"))
"""Formats that keep what is nearly the same: they say what happened."""


def rows_of(
    store: ExperienceReader,
    format: Format,
    selection: Selection = ALL,
    *,
    redact: Redact = well_formed,
    registry: Registry | None = None,
    synthetic: bool = False,
    survey: Survey | None = None,
) -> Iterator[Row | LeftOut]:
    """Each row of the format, or why there is none: one answer for each act that was looked at, for each pair of acts
    that could be one, for each reply before an act that could not be read, and for each row that was made beside the
    acts.

    The same store gives the same answers in the same order; acts that come while it is read are left for the next time.
    `redact` is applied to every text before the row gets its id. `registry`: tools by which an invalid reply is
    repaired (None: the built-in ones). `synthetic`: rows of SFT from the registry come too. `survey`: of this store and
    `eval_share`, for several readings of the same acts; None: of the acts of now. Memory is bounded but for the replies
    of forks, of which there are few: the store is read in pages. Raises StoreError; UsageError where the extra `data`
    is not installed.
    """
    if survey is None:
        survey = survey_of(store.examples.marks(), selection.eval_share)
    workshop = Workshop(selection, survey, redact, store.examples.systems())
    tools = _builtin() if registry is None else registry
    unread: list[LeftOut] = []
    answers: Iterator[Row | LeftOut]
    if format == "minari":
        answers = episode_rows(_surveyed(store, workshop, unread), workshop)
    elif format in PAIRED:
        answers = _pairs(store, format, workshop, tools, unread)
    else:
        answers = _acts(store, format, workshop, unread)
    answers = chain(answers, unread)
    if synthetic and format == "sft":
        answers = chain(answers, synthetic_rows(tools))
    return answers if format in _WHOLE else _different(answers, selection.near)


def _acts(
    store: ExperienceReader, format: Format, workshop: Workshop, unread: list[LeftOut]
) -> Iterator[Row | LeftOut]:
    make, prompts = ROWS[format], set[bytes]()
    corrections = store.examples.corrections() if format in ("sft", "kto") else {}
    for example in _surveyed(store, workshop, unread, prompts=format != "cycles"):
        answer = make(example, workshop)
        if format == "grpo" and isinstance(answer, Row):
            prompt = bytes.fromhex(answer.prompt_hash)[:8]
            if prompt in prompts:
                answer = LeftOut("the same prompt is there", answer.action_ids)
            prompts.add(prompt)
        yield answer
        if (text := corrections.get(example.act.action_id)) is not None:
            yield corrected_row(format, example, text, workshop)


def _pairs(
    store: ExperienceReader,
    format: Format,
    workshop: Workshop,
    registry: Registry,
    unread: list[LeftOut],
) -> Iterator[Row | LeftOut]:
    states, corrections = StateGroups(), store.examples.corrections()
    forks = forked_replies(store.forks.walk())
    for example in _surveyed(store, workshop, unread):
        identity = example.act.action_id
        if (reason := unfit(example, workshop)) is not None:
            yield LeftOut(reason, (identity,))
        elif not example.act.data.action.valid:
            yield repaired_pair(format, example, registry, workshop)
        elif (left := states.add(example)) is not None:
            yield LeftOut("as many acts of its state as are compared", (left,))
        if identity in corrections:
            yield corrected_pair(format, example, corrections[identity], workshop)
        if identity in forks:
            yield from fork_pairs(format, example, forks[identity], workshop)
    for group in states.groups():
        yield from state_pairs(format, store.examples.numbered(group), workshop)


def _surveyed(
    store: ExperienceReader, workshop: Workshop, unread: list[LeftOut], *, prompts: bool = True
) -> Iterator[Example]:
    """The acts up to the last one of the survey. The replies before them that could not be read are put into
    `unread`."""
    for example in store.examples.walk(prompts=prompts, upto=workshop.survey.last):
        unread.extend(unread_replies(example, workshop.selection))
        yield example


def _different(answers: Iterator[Row | LeftOut], near: float) -> Iterator[Row | LeftOut]:
    known: NearDuplicates | None = None
    for answer in answers:
        if isinstance(answer, Row) and answer.origin == "acted":
            known = known or NearDuplicates(near)
            if known.repeats(answer):
                answer = LeftOut("nearly the same row is there", answer.action_ids)
        yield answer


def _builtin() -> Registry:
    from conch.tools import BUILTIN_TOOLS  # imported late: a caller with its own tools does without

    return Registry(tool.spec for tool in BUILTIN_TOOLS)
