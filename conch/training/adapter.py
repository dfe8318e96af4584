"""An adapter: LoRA weights in PEFT's two files, with its base and what it was trained on. Checked before it is used.

Only safetensors are read: the format holds numbers, no code. Its header is bounded before it is parsed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import rfc8785
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch.errors import CheckError
from conch.files import read_plain
from conch_schemas import Digest, Generation, JsonObject, PromptMessage, TrainingMethod

WEIGHTS: Final = "adapter_model.safetensors"
CONFIG: Final = "adapter_config.json"
IDENTITY: Final = "conch.json"
PROBE: Final = "probe.json"
"""Names of an adapter's files."""
MOST_HEADER: Final = 4 * 1024 * 1024
"""Bytes of a safetensors header. An adapter of all linear layers of an 8 B model has 60 KB."""
MOST_CONFIG: Final = 64 * 1024
MOST_RANK: Final = 256
_NAME: Final = re.compile(r"base_model\.model\.(?P<module>[A-Za-z0-9_.]{1,200})\.lora_(?P<side>[AB])\.weight")
_WIDTH: Final = {"F32": 4, "F16": 2, "BF16": 2}
_REFUSED_MODULES: Final = ("lm_head", "embed_tokens", "wte")
"""Servers apply no LoRA there, or each in another way."""


class _AdapterPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class AdapterIdentity(_AdapterPart):
    """The file `conch.json`: what an adapter is of. Its digest covers it, with the weights and their configuration."""

    base: str
    """Name of the base model."""
    base_digest: str
    """SHA-256 of the base's weights file, or of the digests of its files in the order of their names."""
    tokenizer_digest: str
    template_digest: str
    """SHA-256 of the chat template."""
    agentuid: str
    """The agent whose lineage it belongs to."""
    generation: Generation
    """The one that it was trained to become."""
    round: Digest
    snapshot: str
    """Digest of the data set's manifest."""
    method: TrainingMethod


class ProbeLine(_AdapterPart):
    """A prompt by whose greedy reply an adapter is known."""

    messages: tuple[PromptMessage, ...]
    """The system prompt first."""
    base: str
    """Reply of the base alone."""
    adapter: str
    """Reply under the adapter."""

    @property
    def tells(self) -> bool:
        """Whether base and adapter differ on it."""
        return self.base != self.adapter


class ProbeRecord(_AdapterPart):
    """The file `probe.json`: the replies of each engine that was asked when the adapter was made, by its kind."""

    lines: dict[str, tuple[ProbeLine, ...]] = Field(default_factory=dict)


class LoraFile(_AdapterPart):
    """What is known of checked weights."""

    rank: Annotated[int, Field(ge=1, le=MOST_RANK)]
    alpha: float
    modules: tuple[str, ...]
    """Names of the adapted modules, sorted."""
    norm: float
    """Euclidean norm of all B matrices; 0: it changes nothing."""


def adapter_digest(folder: Path, identity: AdapterIdentity) -> str:
    """SHA-256, hexadecimal, over the weights, their configuration and the identity. Raises OSError, CheckError."""
    with (folder / WEIGHTS).open("rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    content: JsonObject = {
        "weights": weights,
        "config": _config(folder),
        "identity": identity.model_dump(mode="json"),
    }
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def served_name(digest: str) -> str:
    """The name under which engines serve an adapter: another one for each, as servers cache by name."""
    return f"conch-{digest[:16]}"


def read_identity(folder: Path) -> AdapterIdentity:
    """The identity in an adapter's directory. Raises CheckError."""
    try:
        return AdapterIdentity.model_validate_json(_bounded(folder / IDENTITY, MOST_CONFIG))
    except ValidationError as error:
        raise CheckError(f"{folder / IDENTITY} is no record of an adapter: train it again") from error


def check_weights(folder: Path) -> LoraFile:
    """Check an adapter's two files: plain LoRA of linear layers, whole, finite, as the configuration says.

    Raises CheckError with the first thing that is wrong: a truncated file, another format, tensors that are no LoRA
    matrices, values that are no numbers, ranks or modules that servers refuse.
    """
    config = _config(folder)
    rank, alpha, targets = _plain(config, folder / CONFIG)
    path = folder / WEIGHTS
    tensors, begin, size = _header(path)
    sides: dict[str, dict[str, tuple[int, int]]] = {}
    squares = 0.0
    place = 0
    with path.open("rb") as file:
        for name, (kind, shape, first, last) in sorted(tensors.items(), key=lambda one: one[1][2]):
            found = _NAME.fullmatch(name)
            if found is None or any(part in _REFUSED_MODULES for part in found["module"].split(".")):
                raise CheckError(f"{path} has the tensor {name[:80]!r}: only LoRA matrices of linear layers are served")
            if first != place or last - first != math.prod(shape) * _WIDTH[kind] or last > size:
                raise CheckError(f"{path} is cut short or damaged: the tensor {name[:80]!r} is not where it says")
            place = last
            file.seek(begin + first)
            values = _values(file.read(last - first), kind)
            if not np.isfinite(values).all():
                raise CheckError(f"{path} has values that are no numbers in {name[:80]!r}")
            if found["side"] == "B":
                squares += float(np.square(values, dtype=np.float64).sum())
            sides.setdefault(found["module"], {})[found["side"]] = shape
    if place != size:
        raise CheckError(f"{path} has {size - place} bytes that belong to no tensor")
    _fit(sides, rank, targets, path)
    return LoraFile(rank=rank, alpha=alpha, modules=tuple(sorted(sides)), norm=math.sqrt(squares))


def _fit(sides: dict[str, dict[str, tuple[int, int]]], rank: int, targets: frozenset[str], path: Path) -> None:
    if not sides:
        raise CheckError(f"{path} has no tensors")
    for module, pair in sides.items():
        if set(pair) != {"A", "B"}:
            raise CheckError(f"{path} lacks one of the two matrices of {module}")
        if pair["A"][0] != rank or pair["B"][1] != rank:
            raise CheckError(f"{path} has another rank in {module} than its configuration, {rank}")
        if targets and module.rsplit(".", 1)[-1] not in targets and module not in targets:
            raise CheckError(f"{path} changes {module}, which its configuration does not name")


def _plain(config: JsonObject, path: Path) -> tuple[int, float, frozenset[str]]:
    """Rank, alpha and modules of a plain LoRA. Raises CheckError for one that servers would not apply as trained."""
    for name, wanted in (("peft_type", ("LORA",)), ("bias", ("none", None)), ("task_type", ("CAUSAL_LM", None))):
        if config.get(name) not in wanted:
            raise CheckError(f"{path}: {name} is {config.get(name)!r}; only a plain LoRA is served ({wanted[0]!r})")
    odd = ("use_dora", "use_rslora", "fan_in_fan_out", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")
    for name in odd:
        if config.get(name):
            raise CheckError(f"{path}: {name} is set; only a plain LoRA is served")
    rank, alpha, targets = config.get("r"), config.get("lora_alpha"), config.get("target_modules")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MOST_RANK:
        raise CheckError(f"{path}: the rank {rank!r} is not from 1 to {MOST_RANK}")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha < math.inf:
        raise CheckError(f"{path}: lora_alpha {alpha!r} is no number above 0")
    if isinstance(targets, list) and all(isinstance(one, str) for one in targets):
        return rank, float(alpha), frozenset(targets)
    if targets == "all-linear":
        return rank, float(alpha), frozenset()
    raise CheckError(f"{path}: target_modules is no list of names")


def _header(path: Path) -> tuple[dict[str, tuple[str, tuple[int, int], int, int]], int, int]:
    """The tensors of a safetensors file by name (type, shape, first and last byte), where their data begin, and how
    many bytes these are."""
    try:
        whole = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            (length,) = struct.unpack("<Q", head) if len(head) == 8 else (0,)
            if not 2 <= length <= min(MOST_HEADER, whole - 8):
                raise CheckError(f"{path} is no safetensors file: its header has {length} bytes of {whole}")
            header = json.loads(file.read(length))
    except OSError as error:
        raise CheckError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckError(f"{path} is no safetensors file: its header is no JSON") from error
    if not isinstance(header, dict):
        raise CheckError(f"{path} is no safetensors file: its header is no object")
    header.pop("__metadata__", None)
    tensors = {name: _entry(entry, name, path) for name, entry in header.items()}
    return tensors, 8 + length, whole - 8 - length


def _entry(entry: Any, name: str, path: Path) -> tuple[str, tuple[int, int], int, int]:
    try:
        kind, (rows, columns), (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise CheckError(f"{path}: the tensor {name[:80]!r} is no matrix") from None
    numbers = (rows, columns, first, last)
    if kind not in _WIDTH or not all(isinstance(one, int) and not isinstance(one, bool) for one in numbers):
        raise CheckError(f"{path}: the tensor {name[:80]!r} is of a type that is not served")
    if min(rows, columns) < 1 or not 0 <= first <= last:
        raise CheckError(f"{path}: the tensor {name[:80]!r} has no size")
    return kind, (rows, columns), first, last


def _values(data: bytes, kind: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    if kind == "BF16":  # the upper half of a 32-bit float
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, "<f4" if kind == "F32" else "<f2")


def _config(folder: Path) -> JsonObject:
    try:
        found = json.loads(_bounded(folder / CONFIG, MOST_CONFIG))
    except (ValueError, RecursionError) as error:
        raise CheckError(f"{folder / CONFIG} is no JSON") from error
    if not isinstance(found, dict):
        raise CheckError(f"{folder / CONFIG} is no configuration of an adapter")
    return found


def _bounded(path: Path, most: int) -> bytes:
    try:
        return read_plain(path, most)
    except OSError as error:
        raise CheckError(f"{path} cannot be read: {error.strerror}") from error
