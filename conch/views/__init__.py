"""Views: the documents that commands print as JSON, the HTTP API answers with and the pages draw, as pydantic
models."""
