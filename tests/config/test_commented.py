"""The conch.yaml that a new home gets is written from the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

from pydantic import BaseModel

from conch.config import Settings
from conch.config.commented import commented
from conch.config.keys import entry_model, is_model, known
from conch.workspace import default_goals

Read = Callable[..., Settings]


def _keys(text: str) -> str:
    """The file with every key that is commented out taken in."""
    return re.sub(r"^( *)#(?=\S)", r"\1", text, flags=re.MULTILINE)


def _sentences(model: type[BaseModel]) -> Iterator[str]:
    for field in model.model_fields.values():
        yield field.description or "NO SENTENCE"
        inner = field.annotation if is_model(field.annotation) else entry_model(field.annotation)
        if inner is not None:
            yield from _sentences(inner)


def _open(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Every mapping whose entries have keys of their own, and their model."""
    for name, field in model.model_fields.items():
        if is_model(field.annotation):
            yield from _open(field.annotation, (*path, name))
        elif (entry := entry_model(field.annotation)) is not None:
            yield (*path, name), entry


def test_the_file_as_it_is_gives_the_defaults(read: Read) -> None:
    """Nothing but comments and empty sections."""
    assert read(commented()) == Settings()


def test_every_key_stands_there_with_its_default(read: Read) -> None:
    """Taking all comment marks away changes no setting, and leaves no key out."""
    text = _keys(commented())

    assert read(text) == Settings()
    for path in known():
        assert re.search(rf"^{'  ' * (len(path) - 1)}{path[-1]}:", text, re.MULTILINE), path


def test_every_key_has_its_sentence() -> None:
    """The sentence with the unit is the model's own."""
    prose = " ".join(re.sub(r"^ *(## *)?# ", "", line) for line in commented().splitlines())

    for sentence in _sentences(Settings):
        assert sentence in prose


def test_the_example_of_an_entry_is_whole_and_right(read: Read) -> None:
    """With its two marks taken away each is read, names every key of an entry, and none is another than the default."""
    text = re.sub(r"^( *)##", r"\1", commented(), flags=re.MULTILINE)

    settings = read(text, edge={"bridge": "mqtt://localhost"})

    found = dict(_open(Settings))
    assert {("rewards", "parts"), ("rewards", "judges"), ("edge", "senses")} <= found.keys()
    for path, model in found.items():
        [entry] = reduce(getattr, path, settings).values()
        assert all(re.search(rf"^ *##    {name}:", commented(), re.MULTILINE) for name in model.model_fields), path
        assert entry.model_fields_set >= {name for name, value in entry if value is not None}, path
        needed = {name: getattr(entry, name) for name, field in model.model_fields.items() if field.is_required()}
        given = {"unit", "payloads", "command", "tools"} & set(model.model_fields)
        assert entry == model(**needed, **{name: getattr(entry, name) for name in given})


def test_workspace_and_goals_are_written_in(read: Read) -> None:
    """What is given is no comment and is read back as it was, odd names too."""
    workspace = Path("/a: b/#c/'d'/é\n/off")

    settings = read(commented(workspace=workspace, goals=default_goals()))

    assert settings == Settings(workspace=str(workspace), goals=default_goals())
