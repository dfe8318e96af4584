"""Loading code of plug-ins from their files, and the errors of that code in words."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from conch.errors import ContractError
from conch.files import read_plain

MOST_BYTES = 4 * 2**20
"""Largest file of plug-ins, in bytes."""
WORDS = 500
"""Most characters of an error in words."""


def text_of(file: str) -> str:
    """The text of a plug-in file. Raises OSError, and ContractError for what is no Python file."""
    if not file.endswith(".py"):
        raise ContractError("it is no Python file (its name must end in .py)")
    return importlib.util.decode_source(read_plain(Path(file), MOST_BYTES))


def module_of(path: Path, text: str) -> ModuleType:
    """The file as a module, imported once. Compiled code beside it is not used: its freshness is judged by seconds
    only. Exceptions of the import are not caught."""
    name = f"conch_rules_{hashlib.sha256(f'{path}:{text}'.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - a plug-in is code
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def error_words(error: BaseException, file: str | None) -> str:
    """`AttributeError: … (brevity.py, line 12)`: the error, and the line of `file` it came from, where it came through
    one. At most WORDS characters."""
    try:
        words = f"{type(error).__name__}: {error}"
    except BaseException as worse:
        words = f"{type(error).__name__}, and its words raise {type(worse).__name__}"
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    place = f" ({Path(str(file)).name[-100:]}, line {lines[-1]})" if lines else ""
    return words[: WORDS - len(place)] + place
