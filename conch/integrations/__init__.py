"""What the integrations with trainers share: a trainer's reply as the act that a rule scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
