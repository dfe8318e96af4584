"""Curiosity: novelty, learning progress, intrinsic drives, and the reward part *exploration*."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
