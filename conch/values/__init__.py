"""Values (REWARDS 8): an agent's principles and guardrails, from a signed file that is read once.

in_force(settings.values)        the values of a run; raises ConfigError for an invalid file or signature
values.guard(action)             why a guardrail blocks this decision, or None; called before anything is run
"""

from conch.values.file import BUILTIN, in_force, read_values
from conch.values.model import Guardrail, Values

__all__ = ["BUILTIN", "Guardrail", "Values", "in_force", "read_values"]
