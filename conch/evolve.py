"""The next state of a fold."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

S = TypeVar("S", bound=BaseModel)


def evolve(state: S, **changes: Any) -> S:
    """`state.model_copy(update=changes)` of a plain model, in a quarter of the time: folds make one for every fact.

    Nothing is validated: the changes are of the fields' types already.
    """
    after = type(state).__new__(type(state))
    put = object.__setattr__
    put(after, "__dict__", {**state.__dict__, **changes})
    put(after, "__pydantic_fields_set__", {*state.__pydantic_fields_set__, *changes})
    put(after, "__pydantic_extra__", None)
    put(after, "__pydantic_private__", None)
    return after
