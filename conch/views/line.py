"""Prints an experience in one line, with hostile text made safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise

from conch.text import safe_text
from conch_schemas import Action, ExperienceRecorded

ACTION_WIDTH = 40
LEAST_ACTION = 16
"""Characters of an action in the narrowest terminal."""
OTHER_COLUMNS = 56
"""Characters of the columns beside the action, with the gaps."""
_HALVES_UP = Context(prec=400, rounding=ROUND_HALF_UP)
"""Digits enough for every float that there is."""
_SHORT = {"DO_NOTHING": "do nothing", "REFLECT": "reflect", "INVALID": "invalid"}


def cycle_line(experience: ExperienceRecorded, agent_width: int = 0) -> str:
    """Number, most urgent need, action, outcome, total, milliseconds of all phases; before them the agent's name in so
    many characters, where there are several agents.

    With `n of m scored` where a part is missing or could not be scored.
    """
    line = (f"{experience.agent:<{agent_width}}  " if agent_width else "") + (
        f"{experience.cycle:>6}  {urgent_need(experience):<14}  {action_words(experience.action):<{ACTION_WIDTH}}  "
        f"{experience.outcome.status:<7}  {signed(experience.total)}  {total_ms(experience):6.0f} ms"
    )
    whole = experience.complete and experience.coverage >= 1
    return line + ("" if whole else f"  ({scored_words(experience)})")


def cycle_header(width: int, agent_width: int = 0) -> str:
    """The names of the columns of `cycle_columns`."""
    agent = f"{'agent':<{agent_width}}  " if agent_width else ""
    action = f"{'action':<{_action_room(width, agent_width)}}"
    return f"{agent}cycle  {'need':<14}  {action}  outcome   total     ms  scored"


def cycle_columns(experience: ExperienceRecorded, width: int, agent_width: int = 0) -> str:
    """What `cycle_line` says, in columns that fit a terminal of `width` characters, from 72 on; the parts that are
    scored, as `5/9`, only where a part is missing."""
    agent = f"{experience.agent:<{agent_width}}  " if agent_width else ""
    room = _action_room(width, agent_width)
    scored, parts = scored_of(experience)
    whole = experience.complete and experience.coverage >= 1
    line = (
        f"{agent}{experience.cycle:>5}  {urgent_need(experience)[:14]:<14}  "
        f"{action_words(experience.action, room):<{room}}  {experience.outcome.status:<7}  {signed(experience.total)}  "
        f"{total_ms(experience):5.0f}  {'' if whole else f'{scored}/{parts}':>6}"
    )
    return line.rstrip()


def _action_room(width: int, agent_width: int) -> int:
    """Characters for the action where the other columns take theirs."""
    others = OTHER_COLUMNS + (agent_width + 2 if agent_width else 0)
    return max(LEAST_ACTION, min(ACTION_WIDTH, width - others))


def urgent_need(experience: ExperienceRecorded) -> str:
    """The need that was least satisfied before the act, or `-` where none is known; of equals the first by name."""
    return needed(experience.needs_before or {})


def needed(needs: Mapping[str, float]) -> str:
    """The least satisfied of these needs, or `-` where there is none; of equals the first by name."""
    return safe_text(min(sorted(needs), key=needs.__getitem__), one_line=True) if needs else "-"


def action_words(action: Action, width: int = ACTION_WIDTH) -> str:
    """The action in at most `width` characters: `filesystem.write journal.md …`, `do nothing: resting`."""
    if action.kind == "TOOL" and action.valid:
        said = [str(value) for name, value in action.args.items() if name != "operation"]
        words = " ".join([action.skill, *said])
    else:
        kind = _SHORT.get(action.kind, "invalid call") if action.valid or action.kind == "INVALID" else "invalid call"
        rest = action.text if action.valid else action.reason
        words = f"{kind}: {rest}" if rest else kind
    words = safe_text(words, one_line=True)
    return words if len(words) <= width else words[: width - 1] + "…"


def signed(value: float, digits: int = 3) -> str:
    """`value` with its sign and `digits` decimals: `+0.450`; what rounds to zero is `+0.000` from either side."""
    text = fixed(value, digits)
    return text if text.startswith("-") else f"+{text}"


def fixed(value: float, digits: int) -> str:
    """`value` with `digits` decimals, a half away from zero, by its shortest decimal text: 0.5625 is `0.563`.

    What rounds to zero has no sign.
    """
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), context=_HALVES_UP)
    return f"{rounded or abs(rounded):f}"


def total_ms(experience: ExperienceRecorded) -> float:
    """Milliseconds from the thought to the end of the act; the reflection after it is not included."""
    return sum(ms for phase, ms in experience.ms.items() if phase != "reflect")


def scored_words(experience: ExperienceRecorded) -> str:
    """`n of m scored`: see `scored_of`."""
    scored, parts = scored_of(experience)
    return f"{scored} of {parts} scored"


def scored_of(experience: ExperienceRecorded) -> tuple[int, int]:
    """(how many are scored, how many there are) of the parts that count and are applicable."""
    parts = [score for score in experience.scores if score.weight > 0 and score.status != "not_applicable"]
    return sum(score.status == "scored" for score in parts), len(parts)


WATERFALL = 20
"""Cells of a waterfall in a terminal."""


def waterfall_cells(amounts: Sequence[float], width: int = WATERFALL) -> list[str]:
    """For each amount a bar from the sum before it to the sum after it, `width` cells on one axis; then the total's.

    `█` adds, `▒` takes off, `│` is 0. An amount that rounds to no cell has one, so that it is seen; 0 has none.
    """
    sums = [0.0]
    for amount in amounts:
        sums.append(sums[-1] + amount)
    low, high = min(sums), max(sums)
    scale = (width - 1) / (high - low) if high > low else 0.0
    spans = [*pairwise(sums), (0.0, sums[-1])]
    return [_bar(begin, end, low, scale, width) for begin, end in spans]


def _bar(begin: float, end: float, low: float, scale: float, width: int) -> str:
    cells = [" "] * width
    cells[round(-low * scale)] = "│"
    if end != begin:
        first, last = sorted((round((begin - low) * scale), round((end - low) * scale)))
        for place in range(first, max(last, first + 1)):
            cells[place] = "█" if end > begin else "▒"
    return "".join(cells)
