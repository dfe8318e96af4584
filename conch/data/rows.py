"""The rows of a format out of a store, and the reason of everything that is left out."""

from __future__ import annotations

from collections.abc import Iterator

from conch.data.acts import ROWS, Redact, Workshop
from conch.data.row import Format, LeftOut, Row
from conch.data.selection import Selection
from conch.data.survey import survey_of
from conch.experience import ExperienceReader
from conch.text import well_formed

ALL: Selection = Selection()


def rows_of(
    store: ExperienceReader,
    format: Format,
    selection: Selection = ALL,
    *,
    redact: Redact = well_formed,
) -> Iterator[Row | LeftOut]:
    """Each row of the format, or why there is none: one answer for each act that was looked at, and for each pair.

    The same store gives the same answers in the same order. `redact` is applied to every text before the row gets its
    id. Memory is bounded: the store is read in pages. Raises StoreError.
    """
    workshop = Workshop(selection, survey_of(store.examples.marks(), selection.eval_share), redact, {})
    yield from _of_acts(store, format, workshop)


def _of_acts(store: ExperienceReader, format: Format, workshop: Workshop) -> Iterator[Row | LeftOut]:
    make = ROWS[format]
    prompts: set[bytes] = set()
    for example in store.examples.walk():
        found = make(example, workshop)
        if format == "grpo" and isinstance(found, Row):
            prompt = bytes.fromhex(found.prompt_hash)[:8]
            if prompt in prompts:
                found = LeftOut("the same prompt is there", found.action_ids)
            prompts.add(prompt)
        yield found
