"""The gate of an adapter, and of a generation of the embedded mind: statistics of held-out states, pure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
