"""Needs: satisfaction levels of an agent, their changes by its events, and the reward for a change."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
