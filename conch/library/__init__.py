"""Conch for scripts and notebooks: open a home, connect to a bus, subscribe to events, run consumers and an agent.

The public names are in `conch`, which imports each of them from here when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
