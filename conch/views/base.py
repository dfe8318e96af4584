"""`View`, the base of all views: frozen models whose JSON has the fields in the order of their declaration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from conch_schemas import JsonObject


class View(BaseModel):
    """A document that is printed, answered or drawn, or a part of one.

    A document names its kind in the field `schema_`, `schema` in JSON. Times are ISO 8601 texts. Constructing with a
    field that is unknown, missing or of another type raises ValidationError.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
        defer_build=True,  # a command builds only the models of the document that it prints
    )

    def document(self) -> JsonObject:
        """The document as plain JSON values."""
        return self.model_dump(mode="json")
