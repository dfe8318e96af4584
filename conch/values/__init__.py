"""Values (REWARDS 8): what an agent stands for and what it never does, from a signed file that is read once.

in_force(settings.values)        the values of a run; raises ConfigError where the file or its signature does not hold
values.guard(action)             why a guardrail blocks this decision, or None; asked before anything is done
"""

from conch.values.file import BUILTIN, in_force, read_values
from conch.values.model import Guardrail, Values

__all__ = ["BUILTIN", "Guardrail", "Values", "in_force", "read_values"]
