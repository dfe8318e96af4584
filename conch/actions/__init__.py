"""Actions: the grammar of a mind's replies, its parser, the tool registry, and constraints for decoding."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
