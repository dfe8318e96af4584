"""Where the scores of a component come from: a rule that comes with Conch, a plug-in, a judge, people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from conch.config import BUILTIN_COMPONENTS, Settings
from conch_schemas import HUMAN_SCORER

if TYPE_CHECKING:
    from conch.home import Home

BUILTIN_MEANINGS: Final = {
    "format": "A reply that keeps to the grammar +0.5, else -1.0.",
    "execution": "A call that moves a goal, or a paid change, +1.0; any other -0.8; rest +0.2, with a goal open -0.2.",
    "needs": "Of each need its priority, times 0.5 where it improved, times -0.3 where it worsened.",
    "goal": "By the goal's own check: achieved 2.0, partial progress 1.0, else 0.0.",
    "exploration": "A tool's first use 0.3, new information 0.5, a problem solved that had failed before 1.0.",
    "intrinsic": "The mean of the drives curiosity, competence, autonomy and social, by training.intrinsic_motivation.",
    "alignment": "The weighted mean of the constitution's principles.",
    "progress": "A step of a task episode: its phase, tests, tokens and switches.",
    "diversity": "Normalised entropy of the last 50 actions; low, exploration of a rare skill pays double.",
    "starving": "What a positive total is multiplied by: 0.3 while a need starves and the act raises no such need.",
    "repetition": "What the total loses where the same was done in the last 20 cycles, or nothing came of it again.",
    "ethical": "The principle of that name; below its floor the cycle's total is at most 0.",
}
"""The meaning of each built-in component."""


class ComponentOrigin(NamedTuple):
    """The origin of a component's scores."""

    origin: str | None
    """A file, an entry point, a key of the settings; None: not known here."""
    doc: str | None
    """The scorer's own description."""


def component_origin(settings: Settings, home: Home, component: str, scorer: str) -> ComponentOrigin:
    """The origin of this scorer's scores of a component, by the run in progress, else by what is installed."""
    from conch.consumer.plugins import discover, reserved, rules_of

    if component in BUILTIN_COMPONENTS:
        return ComponentOrigin("Conch", BUILTIN_MEANINGS[component])
    by = "Said by people (conch reward score)." if scorer == HUMAN_SCORER else f"Scored outside by {scorer}."
    if component in settings.rewards.parts:
        return ComponentOrigin(f"rewards.parts.{component}", by)
    if scorer == HUMAN_SCORER:
        return ComponentOrigin(None, by)
    if component in settings.rewards.judges:
        return ComponentOrigin(f"rewards.judges.{component}", f"Judged by {settings.rewards.judges[component].rubric}.")
    run = home.running()
    rules = discover((), reserved(settings)).rules if run is None else rules_of(run.rules)
    found = next((rule for rule in rules if rule.name == component), None)
    return ComponentOrigin(None, None) if found is None else ComponentOrigin(found.origin, found.doc)
