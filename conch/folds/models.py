"""Models made in fewer steps than pydantic's own ways take, for the inner loops.

Two of them do not look at what they are given: it comes out of other models, or out of arithmetic on them. What comes
from outside is validated where it comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

json_of: Final = msgspec.json.Encoder(enc_hook=attrgetter("__dict__")).encode
"""The JSON of plain models, or of what holds them, as `model_dump_json` writes it."""


def maker(kind: type[M]) -> Callable[[dict[str, Any]], M]:
    """A function that makes a `kind` of all its fields, in their order, as `made_of` does: for what is made often."""
    names = set(kind.model_fields)

    def make(fields: dict[str, Any]) -> M:
        return _filled(kind, fields, names)

    return make


def made_of(kind: type[M], **parts: Any) -> M:
    """A `kind` of these parts, in the order of its fields: `kind(**parts)` without the validation.

    They must be all that it has no default for. Every field counts as said.
    """
    defaults, names = _fields(kind)
    return _filled(kind, parts if len(parts) == len(names) else {**defaults, **parts}, names)


def valid(kind: type[M], **parts: Any) -> M:
    """`kind(**parts)`, validated; raises ValidationError. The core's own way, which is half as long."""
    made: M = kind.__pydantic_validator__.validate_python(parts)
    return made


def evolve(state: M, **changes: Any) -> M:
    """`state.model_copy(update=changes)` of a plain model: folds make one for every fact."""
    return _filled(type(state), {**state.__dict__, **changes}, {*state.__pydantic_fields_set__, *changes})


def _filled(kind: type[M], fields: dict[str, Any], said: set[str]) -> M:
    model = kind.__new__(kind)
    _put(model, "__dict__", fields)
    _put(model, "__pydantic_fields_set__", said)
    _put(model, "__pydantic_extra__", None)
    _put(model, "__pydantic_private__", None)
    return model


_put = object.__setattr__


@cache
def _fields(kind: type[BaseModel]) -> tuple[dict[str, Any], set[str]]:
    """(every field's default in the order of the model, which is the order that it is written in; their names)."""
    defaults = {name: field.default for name, field in kind.model_fields.items()}
    return defaults, set(defaults)
