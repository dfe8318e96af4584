"""What training would take, from two batches that are measured and not kept."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Final

from conch.training.child.limits import peak_mib
from conch.training.child.render import RenderedRow

OVERHEAD: Final = 1.25
"""Time of a run over that of its steps: evaluations, checkpoints, probes. Measured on a tiny model and on SmolLM2."""
_LOADED_SECONDS: Final = 15.0
"""What starting, loading and the probes take besides."""


def seconds_a_token(model: Any, rows: Sequence[RenderedRow], batch: int) -> tuple[float, int]:
    """(seconds of training for each token, tokens of the batch that it was measured on). The batch is of the longest
    rows: `peak_mib` after it is about that of a training."""
    import torch

    chosen = sorted(rows, key=lambda row: (-row.longest, row.row.row_id))[:batch]
    texts = [[*row.prompt, *(row.replies[0] if row.replies else ())] for row in chosen]
    longest = max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts], device=model.device)
    seen = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts], device=model.device)
    model.train()
    for _ in range(2):  # the first one allocates
        begun = time.monotonic()
        model(input_ids=ids, attention_mask=seen, labels=ids.masked_fill(seen == 0, -100)).loss.backward()
        seconds = time.monotonic() - begun
        model.zero_grad()
    return seconds / ids.numel(), ids.numel()


def minutes_of(tokens: int, epochs: float, rate: float, passes: float) -> float:
    """Minutes of a training on this many tokens; `passes`: what a token of the method costs, as a multiple of SFT."""
    return (tokens * epochs * rate * passes * OVERHEAD + _LOADED_SECONDS) / 60


def mib_of() -> float:
    """The peak so far, and as much for the optimizer's state as LoRA takes: little beside the base."""
    return math.ceil(peak_mib() * 1.1)
