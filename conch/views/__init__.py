"""Views: the documents that commands print as JSON, the HTTP API answers with and the pages draw, as pydantic
models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
