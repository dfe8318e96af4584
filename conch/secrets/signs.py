"""A quick look at many texts: which of them may hold a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conch.secrets.forms import shows_token
from conch.secrets.named import FOREIGN
from conch.secrets.places import commands_in, takes_user
from conch.secrets.tables import COLUMN_WORDS, holds_pgpass
from conch.secrets.unescaped import plain_text
from conch.secrets.view import SearchedText


class SecretSigns:
    """What the secrets show by that stand in some texts, joined by line ends."""

    def __init__(self, texts: str) -> None:
        self._texts, self._signs = list[str](), list[Callable[[str], bool]]()
        self._take(texts)
        if "\\u" in texts:  # other escapes leave each name as it is
            self._take(plain_text(texts))

    def _take(self, texts: str) -> None:
        searched = SearchedText(texts)
        words = {*searched.secret_words, *(searched.words & COLUMN_WORDS), *filter(takes_user, searched.words)}
        self._texts += [*(word.decode() for word in words), *commands_in(searched)]
        self._signs += [sign for sign in _SIGNS if sign(texts)]

    def in_text(self, text: str) -> bool:
        """Whether one of the texts may hold a secret: true for each that does, and for few others."""
        return self._shows(text) or ("\\u" in text and self._shows(plain_text(text)))

    def _shows(self, text: str) -> bool:
        return any(sign(text) for sign in self._signs) or any(word in text for word in self._texts)


def _names_user(text: str) -> bool:
    return "@" in text and "://" in text


def _holds_foreign_name(text: str) -> bool:
    return not text.isascii() and any(name in text for name in FOREIGN)


_SIGNS: Final[tuple[Callable[[str], bool], ...]] = (shows_token, _names_user, holds_pgpass, _holds_foreign_name)
