"""Models made of what is valid already, without looking at it again: pydantic's own ways cost several times as much.

For the inner loops alone, and for values that come out of other models or out of arithmetic on them. What comes from
outside is validated where it comes in.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def made_of(kind: type[M], **parts: Any) -> M:
    """A `kind` of these parts, which must be all that it has no default for: `kind(**parts)` without the validation."""
    return _filled(kind, {**_defaults(kind), **parts}, set(parts))


def evolve(state: M, **changes: Any) -> M:
    """`state.model_copy(update=changes)` of a plain model: folds make one for every fact."""
    return _filled(type(state), {**state.__dict__, **changes}, {*state.__pydantic_fields_set__, *changes})


def _filled(kind: type[M], fields: dict[str, Any], said: set[str]) -> M:
    model, put = kind.__new__(kind), object.__setattr__
    put(model, "__dict__", fields)
    put(model, "__pydantic_fields_set__", said)
    put(model, "__pydantic_extra__", None)
    put(model, "__pydantic_private__", None)
    return model


@cache
def _defaults(kind: type[BaseModel]) -> dict[str, Any]:
    """Every field in the order of the model, which is the order that it is written in."""
    return {name: field.default for name, field in kind.model_fields.items()}
