"""The default goals of a new home, which are about the notebook."""

from __future__ import annotations

from conch.workspace.kinds import committed
from conch_schemas import FileCheck, Goal

UNCOMMITTED = "data/october.csv"
"""Left out of the repository: committing it is one of the goals."""
TERMS = (
    "graze", "radula", "ebb", "home scar", "mucus", "clamp", "oystercatcher",
    "armour", "abdomen", "periwinkle", "whelk", "elders", "vacancy chain", "crumbs",
    "tentacle", "nematocysts", "harpoons", "beadlet", "drifts", "snakelocks", "algae",
    "shrimp", "limestone", "cirri", "nauplius", "cyprid", "glues", "cement", "decade", "drill",
    "forest", "holdfast", "stipe", "blade", "strand", "brittle stars", "chitons", "lightning", "Bladderwrack", "surge",
    "moon", "spring tides", "quarters", "neap tides", "pilots", "rule of twelfths", "slack", "hectopascal",
    "canals", "tube feet", "mussel", "stomach", "comet", "jaw", "Aristotle's lantern", "test", "pedicellariae",
    "Cushion stars",
    "shanny", "ceiling", "insult", "goby", "pipefish", "lumpsucker", "disc", "Fifteen-spined",
    "bold", "coralline", "richest", "sea hare", "prawns",
)  # fmt: skip
"""The words set in bold in the notes."""

CREATURES = ("Limpets", "Hermit crabs", "Anemones", "Barnacles", "Kelp", "Tides", "Stars and urchins", "Fish")
"""The headings of the notes, less the questions."""


def default_goals() -> tuple[Goal, ...]:
    """Three goals, the nearest first; the glossary is long work."""
    return (
        Goal(
            id="commit-october",
            statement=f"The October count, {UNCOMMITTED}, is committed.",
            check=committed(UNCOMMITTED),
            priority=0.6,
        ),
        Goal(
            id="summary",
            statement=f"SUMMARY.md has every heading of the notes: {', '.join(CREATURES)}.",
            check=FileCheck(path="SUMMARY.md", contains=CREATURES),
            priority=0.5,
        ),
        Goal(
            id="glossary",
            statement="glossary.md has a line for every word that is set in **bold** in the notes.",
            check=FileCheck(path="glossary.md", contains=TERMS),
            priority=0.4,
        ),
    )
