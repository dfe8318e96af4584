"""The words that are to be forgotten, and whether they stand in some bytes. Pure."""

from __future__ import annotations

import json
import re
from functools import cached_property

from pydantic import BaseModel, ConfigDict, JsonValue

SHORTEST = 3
"""Fewest characters of a text that is looked for: shorter ones stand in most words."""
REMOVED = "removed at a person's request"
"""Stands in the place of a text in a checkpoint or a JSON file."""


class Needle(BaseModel):
    """Texts that are looked for without regard to upper and lower case, and ids of messages."""

    model_config = ConfigDict(frozen=True, ignored_types=(cached_property,))

    texts: tuple[str, ...]
    ids: tuple[str, ...] = ()
    """Ids of messages: what names one is about it."""

    def held(self, data: bytes) -> bool:
        """Whether a text or an id stands in the data, also as JSON writes it, once or in a JSON text within JSON."""
        return self._all.search(data.decode("utf-8", "replace").casefold()) is not None

    def text_in(self, data: bytes) -> bool:
        """Whether a text stands in the data, faster; an id is no text of a person. A letter beyond ASCII is found in
        the case that it was given in, and where all are upper, lower, or begin a word so."""
        return self._texts.search(data) is not None

    def without(self, value: JsonValue, *, drops: bool = False) -> JsonValue:
        """The JSON value with REMOVED in place of each string that holds a text or an id, and without the members whose
        names do. `drops`: an object in a list that holds such a string by itself is left out of the list."""
        if isinstance(value, str):
            return REMOVED if self.held(value.encode()) else value
        if isinstance(value, list):
            kept = [one for one in value if not (drops and self._held_by(one))]
            return [self.without(one, drops=drops) for one in kept]
        if isinstance(value, dict):
            named = {name: one for name, one in value.items() if not self.held(name.encode())}
            return {name: self.without(one, drops=drops) for name, one in named.items()}
        return value

    def _held_by(self, value: JsonValue) -> bool:
        """Whether it is an object of which a string, not one in a list of objects, holds a text or an id."""
        if not isinstance(value, dict):
            return False
        return any(
            self.held(one.encode()) if isinstance(one, str) else self._held_by(one) for one in value.values()
        ) or any(self.held(name.encode()) for name in value)

    @cached_property
    def _texts(self) -> re.Pattern[bytes]:
        forms = {form.encode() for text in self.texts for cased in _cases(text) for form in _forms(cased)}
        return re.compile(b"|".join(map(re.escape, sorted(forms))) or rb"(?!)", re.IGNORECASE)

    @cached_property
    def _all(self) -> re.Pattern[str]:
        return _pattern((*self.texts, *self.ids))


def _pattern(texts: tuple[str, ...]) -> re.Pattern[str]:
    forms = {form.casefold() for text in texts for cased in _cases(text) for form in _forms(cased)}
    return re.compile("|".join(map(re.escape, sorted(forms))) or r"(?!)")


def _cases(text: str) -> set[str]:
    """A letter beyond ASCII that JSON escapes has another escape in each case."""
    return {text, text.lower(), text.upper(), text.title()}


def _forms(text: str) -> set[str]:
    """The text plain, as a JSON string, and as a JSON string within one."""
    once = _escaped(text)
    return {text, *once, *(twice for one in once for twice in _escaped(one))}


def _escaped(text: str) -> set[str]:
    return {json.dumps(text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)}
