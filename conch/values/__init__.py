"""Values: an agent's principles and guardrails, from a signed file that is read once.

in_force(settings.values)        the values of a run; raises ConfigError for an invalid file or signature
values.guard(action)             why a guardrail blocks this decision, or None; called before anything is run
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
