"""Rounds of training: from the experiences of a lineage to an adapter that is trained, gated, tried and promoted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
