"""Connections to servers: HTTP clients and TLS contexts, and what the environment may say about them.

An address of this machine is reached as it is written: no proxy, no certificates and no key log of the environment
count for it. For other addresses they do, and a variable that cannot be used is one sentence with its name.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
