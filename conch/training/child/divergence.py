"""How far a model has moved from its base: the KL divergence on recorded replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from conch.training.child.render import RenderedRow

ROWS: Final = 16
"""Most rows that a measurement reads: each costs two forward passes."""


def kl_to_base(model: Any, rows: Sequence[RenderedRow]) -> float | None:
    """Mean KL divergence of the model from its base at the tokens of the first reply, in nats a token; None without
    rows. Leaves the model in the mode that it had."""
    import torch

    total, tokens, was_training = 0.0, 0, model.training
    model.eval()
    with torch.no_grad():
        for row in [one for one in rows if one.replies][:ROWS]:
            ids = torch.tensor([[*row.prompt, *row.replies[0]]], device=model.device)
            ours = _log_probabilities(model, ids, len(row.replies[0]))
            with model.disable_adapter():
                theirs = _log_probabilities(model, ids, len(row.replies[0]))
            total += float((ours.exp() * (ours - theirs)).sum())
            tokens += len(row.replies[0])
    model.train(was_training)
    return total / tokens if tokens else None


def _log_probabilities(model: Any, ids: Any, reply: int) -> Any:
    """Of every token of the vocabulary, at each place of the reply. By the layers themselves: TRL gives the model a
    forward that returns no logits."""
    whole = model.get_base_model()
    hidden = getattr(whole, whole.base_model_prefix)(input_ids=ids, use_cache=False).last_hidden_state
    return whole.get_output_embeddings()(hidden[0, -reply - 1 : -1]).log_softmax(-1)
