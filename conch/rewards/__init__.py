"""Reward rules, constitution, weight set and total: pure functions of values."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
