"""Values (REWARDS 8): what an agent stands for and what it never does, from a signed file that is read once.

in_force(settings.values)        the values of a run; raises ConfigError where the file or its signature does not hold
values.guard(action)             why a guardrail blocks this decision, or None; asked before anything is done
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
