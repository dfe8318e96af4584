"""Training: the adapters of an agent's model, which of them acts, and what decides on that. Imports no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
