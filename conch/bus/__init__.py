"""The message bus: the protocol `Bus` and its two implementations, NATS JetStream and in memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
