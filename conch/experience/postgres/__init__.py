"""The experience store in a PostgreSQL database, 15 or newer; needs the extra `postgres`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
