"""Minds: what thinks and decides. Each gives raw text that goes through the one parser."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
