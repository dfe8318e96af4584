"""In words: the role and the weight of a part of the weight set, the decoding of a reply, and costs."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

from conch_schemas import Cost, Decoding, Part, Usage

if TYPE_CHECKING:
    from conch.experience import CostSummary

_LARGE, _ASTRONOMIC = 1e4, 1e12
"""Between these a limit of a range is written out, in groups of three digits."""
_LEAST_AMOUNT = 1e-6
"""Smaller amounts are not written out."""


def role_words(part: Part) -> str:
    """The effect of a part's score on the total, in a word: paid, watched, held out, boost, factor, penalty, gate.

    `0.1 in tasks`: its weight in acts that belong to a task; of other acts it is no part.
    """
    if part.task_weight is not None:
        return f"{part.task_weight:g} in tasks"
    if part.role == "paid":
        return "paid" if part.weight else "watched"
    return part.role.replace("_", " ")


def share_words(weight: float | None, role: str) -> str:
    """Its weight where it has one, else its role."""
    return f"{weight:.3f}" if weight else role


def scored_share(component: str, scored: int, count: int) -> str:
    """Of how many acts a mean is, where that is not all of them: ` of 3 of 200 acts`, of *format*, which abstains where
    the decoding was constrained, ` of 3 free replies`; empty where each act was scored."""
    if not 0 < scored < count:
        return ""
    if component == "format":
        return f" of {scored:,} free {'reply' if scored == 1 else 'replies'}"
    return f" of {scored:,} of {count:,} acts"


_STEPS = {
    "cap:cycle": "held to −1 to 1",
    "diversity": "paid double for too little variety",
    "repetition": "taken off for repetition",
    "starving": "cut while a need starves",
}


def step_words(step: str) -> str:
    """A part or a step of a total by what it does to it, for a person: a part keeps its name, `gate:ethical` is
    `held to 0 by ethical`."""
    kind, _, component = step.partition(":")
    if kind == "part":
        return component
    if kind == "gate":
        return f"held to 0 by {component}"
    if kind == "cap" and component != "cycle":
        return f"cap of {component}"
    return _STEPS.get(step, step)


def range_words(least: float, greatest: float) -> str:
    """`-1..0.5`; `±1,000,000` where it is as wide to both sides and so large that `:g` would write powers of ten."""
    if least == -greatest and greatest >= _LARGE:
        return f"±{_number(greatest)}"
    return f"{_number(least)}..{_number(greatest)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if _LARGE <= abs(value) < _ASTRONOMIC else f"{value:g}"


_HELD = {
    "free": "free",
    "grammar": "held to a grammar",
    "schema": "held to a JSON schema",
    "tools": "as a call of a declared tool",
}


def waiting_words(phase: str, seconds: float, tokens: int) -> str:
    """What an agent waits for from its mind, for a person: `decide, 12 s, about 340 tokens so far`."""
    so_far = f"about {tokens:,} tokens so far" if tokens else "no word so far"
    return f"{phase}, {seconds:.0f} s, {so_far}"


def amount_words(amount: float, currency: str) -> str:
    """An amount for a person: two decimals, of less than 1 four significant digits, in at most 20 characters."""
    if amount >= _ASTRONOMIC:
        return f"{amount:.3g} {currency}"
    if amount >= 1 or amount == 0:
        return f"{amount:,.2f} {currency}"
    if amount < _LEAST_AMOUNT:
        return f"less than {_LEAST_AMOUNT:.6f} {currency}"
    return f"{amount:.{3 - floor(log10(amount))}f}".rstrip("0").rstrip(".") + f" {currency}"


def price_words(cost: Cost | None, usage: Usage) -> str:
    """What a cycle cost; `cost unknown` where it used tokens whose price is not known, empty where it used none."""
    if cost is not None:
        return amount_words(cost.amount, cost.currency)
    return "cost unknown" if usage.input_tokens or usage.output_tokens else ""


def costs_words(costs: CostSummary) -> str:
    """What several cycles cost, and of how many that is unknown; empty where none used tokens."""
    known = " + ".join(amount_words(amount, currency) for currency, amount in costs.amounts.items())
    if known and costs.unknown:
        return f"{known} in {costs.known} cycles, unknown of {costs.unknown} more"
    if costs.unknown:
        return f"unknown of {costs.unknown} cycles (mind.price says what a token costs)"
    return f"{known} in {costs.known} cycles" if known else ""


def decoding_words(decoding: Decoding) -> str:
    """How a reply was decoded, in a line: engine, constraint, sampling, probabilities, the keys of prompt and state."""
    shown = (
        ("adapter {:.12}", decoding.adapter),
        ("temperature {:g}", decoding.temperature),
        ("top-p {:g}", decoding.top_p),
        ("seed {}", decoding.seed),
        ("{} tokens", decoding.tokens),
        ("log probability {:.2f}", decoding.logprob),
        ("propensity {:.4g}", decoding.propensity),
        ("prompt {:.12}", decoding.prompt_sha256),
        ("state {}", decoding.state_key),
    )
    known = (words.format(value) for words, value in shown if value is not None)
    return ", ".join((decoding.engine, _HELD[decoding.constraint], *known))
