"""Enumerates and looks up the settings' keys, by walking the model along key paths."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel

from conch.config.model import Settings
from conch.config.source import KeyPath, dotted


def is_model(kind: Any) -> TypeGuard[type[BaseModel]]:
    """Whether a type is a model."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def arms(annotation: Any) -> list[Any]:
    """The types that an annotation admits, None left out."""
    if get_origin(annotation) is Annotated:
        return arms(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [arm for part in get_args(annotation) if part is not NoneType for arm in arms(part)]
    return [annotation]


def takes_parts(annotation: Any) -> bool:
    """Whether a value with this annotation is a mapping or a list."""
    return any(is_model(arm) or get_origin(arm) in (dict, tuple) for arm in arms(annotation))


def entry_model(annotation: Any) -> type[BaseModel] | None:
    """The model of the entries of a mapping with free names; None for any other annotation."""
    entries = [get_args(arm)[1] for arm in arms(annotation) if get_origin(arm) is dict]
    return next(filter(is_model, entries), None)


def inside(annotation: Any, part: str | int) -> Any | None:
    """The annotation of one part of a value; None where it has no such part."""
    for arm in arms(annotation):
        if is_model(arm):
            if part in arm.model_fields:
                return arm.model_fields[str(part)].annotation
        elif get_origin(arm) is dict:
            return get_args(arm)[1]
        elif get_origin(arm) is tuple and isinstance(part, int):
            return get_args(arm)[0]
    return None


def located(location: KeyPath) -> tuple[KeyPath, Any]:
    """The key path for the location of a validation error, and the annotation of the last key's parent.

    pydantic reports the chosen member of a tagged union as if it were a key, and appends `[key]` to an invalid key;
    both are removed here.
    """
    path: KeyPath = ()
    annotation: Any = Settings
    holder: Any = Settings
    for part in location:
        if part == "[key]":
            continue
        models = [arm for arm in arms(annotation) if is_model(arm)]
        if len(models) > 1:
            annotation = next(m for m in models if part in get_args(m.model_fields["kind"].annotation))
            continue
        path, holder, annotation = (*path, part), annotation, inside(annotation, part)
    return path, holder


def known(model: type[BaseModel] = Settings, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key path with a fixed name, including sections."""
    for name, field in model.model_fields.items():
        yield (*path, name)
        if is_model(field.annotation):
            yield from known(field.annotation, (*path, name))


def nearest(path: KeyPath, holder: Any = None) -> list[KeyPath]:
    """The known keys that an unknown one may stand for: the same name elsewhere, otherwise the most similar."""
    everywhere = list(known())
    same = [key for key in everywhere if key[-1] == path[-1]]
    if same:
        return same
    beside = [(*path[:-1], name) for arm in arms(holder) if is_model(arm) for name in arm.model_fields]
    alike = _alike({dotted(key): key for key in (*everywhere, *beside)}, dotted(path), 0.65)
    return alike or _alike({str(key[-1]): key for key in everywhere}, str(path[-1]), 0.6)


def _alike(names: dict[str, KeyPath], name: str, least: float) -> list[KeyPath]:
    return [names[found] for found in get_close_matches(name, names, n=1, cutoff=least)]
