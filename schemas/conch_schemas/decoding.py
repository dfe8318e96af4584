"""How a reply was decoded, and with which probability it was chosen: what cannot be computed again later."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from conch_schemas.envelope import Value

Constraint = Literal["free", "grammar", "schema", "tools"]


class Decoding(Value):
    """The decoding of a decision's reply. A field is None where the mind does not know it."""

    engine: str
    """Engine that made the reply: the kind of mind (`reflex`, `openai`, `scripted`), or `llama.cpp` for `local`."""
    model: str
    """Name of the model as the engine returned it."""
    adapter: str | None = None
    """Digest of the adapter's weights; None: no adapter was applied, or none is known."""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    """Seed of the sampling, as it was sent to the engine."""
    logprob: Annotated[float, Field(le=0.0)] | None = None
    """Sum of the natural logarithms of the probabilities of the reply's tokens, as the engine reported them."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens of the reply."""
    constraint: Constraint = "free"
    """What the reply was held to while it was decoded; `free`: nothing."""
    prompt_sha256: str = ""
    """SHA-256, hexadecimal, of all messages that were sent, the system prompt first: UTF-8 of a JSON list of objects
    with `content` and `role`, without white space."""
    state_key: str = ""
    """Hash, 16 hexadecimal digits, over the most pressing need, the ids of the active goals, the names of the tools and
    the status of the last outcome. Decisions with the same key were made in comparable states."""
    propensity: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Probability with which the policy chooses this reply among the candidates that it drew for the cycle."""
    unread: Annotated[int, Field(ge=1)] | None = None
    """Replies to the question before this one that could not be read for a reason of the transport (status, framing,
    JSON type). They are no acts, and have no scores; None: there were none."""
