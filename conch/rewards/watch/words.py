"""What an alarm says: one sentence, of plain figures."""

from __future__ import annotations

from conch.rewards.watch.look import Finding


def sentence(finding: Finding, acts: int, *, begins: bool) -> str:
    """That an alarm begins, or is over, with its figure over so many acts."""
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
            return f"{lead}: the entropy of tool × operation over {acts} acts is {value:.2f}"
        case "held_out":
            lead = "the total left" if begins else "the total is back beside"
            rose, followed = (f"{shift:+.1f}".replace("-", "−") for shift in finding.details)
            return f"{lead} the held-out {name}: {rose} against {followed} standard deviations over {acts} acts"
