"""What an agent remembers for months: short texts with their source acts, ranked by relevance, recency, importance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
