"""Simulated tasks of a team, whose best topology differs by phase and by task: to compare controllers. Pure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
