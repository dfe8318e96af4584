"""Decisions as they were asked for, each with the workspace as it was: what a fork begins with."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
