"""Texts of alarms: the statistic in a sentence, its meaning, the advice, and its bound."""

from __future__ import annotations

from typing import Final, Literal

from conch.rewards.watch.look import WORK, WatchFinding, back
from conch_schemas import AlarmKind

MEANINGS: Final[dict[AlarmKind, str]] = {
    "dominance": "One component decides nearly all of the reward, so that the agent learns to please it alone: "
    "lower its weight or give it a cap, and look at the acts that it paid best.",
    "collapse": "All acts earn nearly the same, so that nothing can be learned from the reward: look whether the agent "
    "repeats one safe act or a scorer has stuck, and set it a goal that is not reached yet.",
    "length_drift": "Replies have grown or shrunk as a whole, which happens where length itself is paid for or a mind "
    "was changed: read some, and take away what pays for length.",
    "falling_entropy": "The agent does nearly the same again and again: look whether one act pays too well, "
    "pause it if the act does harm, and set a goal that needs other tools.",
    "held_out": "The reward rises while a score that the agent is not paid for does not follow, the sign of a reward "
    "that is gamed: read the newest acts, and do not train on them before you know why.",
}
"""Meaning and advice for each kind of alarm."""

NAMES: Final[dict[AlarmKind, str]] = {
    "dominance": "one rule decides all",
    "collapse": "rewards all alike",
    "length_drift": "replies changed length",
    "falling_entropy": "stuck in a habit",
    "held_out": "paid more, not better",
}
"""The name of each kind of alarm for a person."""
SERIOUS: Final[frozenset[AlarmKind]] = frozenset({"held_out"})
"""Kinds whose acts are not to be trained on before a person knows why. Any other is a warning: a young agent that does
much the same raises one, and nothing is wrong."""

Severity = Literal["warning", "serious"]


def alarm_name(alarm: AlarmKind) -> str:
    """An alarm's name for a person."""
    return NAMES[alarm]


def severity(alarm: AlarmKind) -> Severity:
    """How much an alarm matters."""
    return "serious" if alarm in SERIOUS else "warning"


def sentence(finding: WatchFinding, acts: int, *, begins: bool) -> str:
    """The sentence that an alarm begins, or ends, with its figure over so many acts."""
    name, value = finding.component, finding.value
    match finding.alarm:
        case "dominance":
            makes = f"makes {value:.0%} of the total's variance over {acts} acts"
            return f"{name} {makes}" if begins else f"{name} dominates no longer: it {makes}"
        case "collapse":
            lead = "the total hardly varies any more" if begins else "the total varies again"
            return f"{lead}: its variance over {acts} acts is {value:.0%} of what it was"
        case "length_drift":
            lead = (
                f"replies are {value:.2g} times as long as before" if begins else "replies are as long as before again"
            )
            return f"{lead}: the median of {acts} acts is {finding.details[0]:g} characters"
        case "falling_entropy":
            lead = "diversity is low" if begins else "diversity is back"
            if not begins and finding.details[0] >= WORK:
                lead = f"few kinds of act, and {finding.details[0]:.0%} of them moved a goal"
            return f"{lead}: the entropy of tool × operation over {acts} acts is {value:.2f}"
        case "held_out":
            lead = "the total left" if begins else "the total is back beside"
            rose, followed = (f"{shift:+.1f}".replace("-", "−") for shift in finding.details)
            return f"{lead} the held-out {name}: {rose} against {followed} standard deviations over {acts} acts"


def bounds(alarm: AlarmKind, value: float, threshold: float) -> str:
    """The figure, its bound, and the value that ends the alarm: `0.28, alarm below 0.3; over again above 0.44`."""
    shrunk = alarm == "length_drift" and threshold < 1.0
    if shrunk:
        over = 1.0 / back(1.0 / threshold, 1.0)
    else:
        over = back(threshold, 0.0 if alarm in ("dominance", "held_out") else 1.0)
    begins, ends = ("below", "above") if shrunk or alarm in ("collapse", "falling_entropy") else ("above", "below")
    return f"{value:.3g}, alarm {begins} {threshold:.3g}; over again {ends} {over:.3g}"
