"""Witness: an audit trail with a hash-chained mark for every act, its scores, every alarm, message, goal and pause."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
