"""asyncio tasks that have an owner: what starts them, waits for them, races them and ends them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
