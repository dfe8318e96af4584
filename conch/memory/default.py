"""The embedder that an installed package brings. numpy and the weights are imported when it is asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from conch.config import is_installed, to_install
from conch.log import get_logger

if TYPE_CHECKING:
    from conch.memory.embed import Embedder

log = get_logger(__name__)


@cache
def default_embedder() -> Embedder | None:
    """The embedder of this process; None, with a log line, where the extra `memory` is not installed."""
    if not is_installed("wordllama"):
        log.info("memory.words_alone", install=to_install("memory"))
        return None
    from conch.memory.embed import WordLlamaEmbedder

    return WordLlamaEmbedder()
