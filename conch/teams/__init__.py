"""Teams: roles that work on one task, the topology that routes their messages, and the controller that chooses it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
