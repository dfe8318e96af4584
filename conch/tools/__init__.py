"""Tools of the agent, the sandbox that programs run in, and the checks of goals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
