"""Adapters of PEFT as GGUF files for llama.cpp, which names their tensors otherwise and orders some rows otherwise.

llama.cpp's own converter, `convert_lora_to_gguf.py`, was looked at: it is no package, and needs the base's
configuration as files beside its GGUF file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from conch.errors import ConfigError
from conch.files import read_plain

MOST_CONFIG: Final = 1024 * 1024
"""Most bytes of `adapter_config.json`."""
ROTATED: Final = {"llama": True, "qwen2": False, "qwen3": False, "gemma": False, "gemma2": False, "gemma3": False}
"""By architecture, as a GGUF file names it: whether the rows of the projections q and k are stored in another order, as
`convert_hf_to_gguf.py` does for Llama's form of rotary positions. An adapter of another architecture is refused."""
_PLAIN: Final = {
    "use_dora": False,
    "use_rslora": False,
    "lora_bias": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "alpha_pattern": {},
    "modules_to_save": None,
    "layer_replication": None,
}
"""What a configuration has where the adapter is two matrices for each module and nothing else."""
_TENSOR: Final = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<part>[AB])\.weight")


@dataclass(frozen=True)
class BaseFacts:
    """What a conversion needs of the base's GGUF file."""

    architecture: str
    layers: int
    heads: int
    key_heads: int
    """Heads of the projection k."""
    shapes: dict[str, tuple[int, ...]]
    """Inputs and outputs of each weight."""
    size: int
    """Bytes of the file."""

    @classmethod
    def of(cls, model: Path) -> BaseFacts:
        """Read them; 3.5 s of processor time for a vocabulary of 49,152. Raises ConfigError."""
        gguf = _library()
        try:
            reader = gguf.GGUFReader(model)
            architecture = str(_value(reader, "general.architecture"))
            heads = int(_value(reader, f"{architecture}.attention.head_count"))
            key_heads = int(_value(reader, f"{architecture}.attention.head_count_kv") or heads)
            layers = int(_value(reader, f"{architecture}.block_count"))
        except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
            raise ConfigError(f"{model} cannot be read as the base of an adapter: {error}") from None
        shapes = {tensor.name: tuple(int(size) for size in tensor.shape) for tensor in reader.tensors}
        return cls(architecture, layers, heads, key_heads, shapes, model.stat().st_size)


def converted(directory: Path, base: BaseFacts, place: Path) -> Path:
    """The GGUF file of the adapter in `directory`, in `place`; written there unless it is there already.

    Its name has a digest of the adapter's files and of the base's facts, so it never stands for other weights. Killed
    meanwhile, no file has that name. Raises ConfigError in a sentence for files that are no plain LoRA of this base.
    """
    try:
        settings = json.loads(read_plain(directory / "adapter_config.json", MOST_CONFIG))
        weights = directory / "adapter_model.safetensors"
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        digest.update(json.dumps([settings, base.architecture, base.heads, base.key_heads, base.size]).encode())
        target = place / f"{digest.hexdigest()}.gguf"
        if not target.is_file():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = place / f".{target.name}.{os.getpid()}"
            try:
                _write(_renamed(weights, base), _alpha(settings, directory), base.architecture, fresh)
                os.replace(fresh, target)
            finally:
                fresh.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"the adapter in {directory} cannot be converted: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the adapter in {directory} cannot be converted: {error}") from None
    return target


def _library() -> Any:
    try:
        import gguf
    except ImportError:
        raise ConfigError("adapters need the library gguf: pip install 'conch-agent[train]'") from None
    return gguf


def _value(reader: Any, key: str) -> Any:
    field = reader.get_field(key)
    found = field.contents() if field is not None else None
    return found[0] if isinstance(found, list) else found


def _alpha(settings: object, directory: Path) -> float:
    """The scale of the adapter, for which it has to be plain. Raises ValueError."""
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        raise ValueError(f"{directory.name}/adapter_config.json describes no LoRA adapter")
    for name, plain in _PLAIN.items():
        if settings.get(name, plain) not in (plain, None):
            raise ValueError(f"it is no plain LoRA: {name} is {settings[name]!r}, and {plain!r} can be served")
    alpha = settings.get("lora_alpha")
    if not isinstance(alpha, int | float) or isinstance(alpha, bool):
        raise ValueError("lora_alpha is no number")
    return float(alpha)


def _renamed(weights: Path, base: BaseFacts) -> dict[str, NDArray[np.float32]]:
    """The adapter's tensors by their names in a GGUF file, each checked against the base. Raises ValueError."""
    if base.architecture not in ROTATED:
        raise ValueError(f"adapters of {base.architecture} are not known: {', '.join(ROTATED)} are")
    gguf = _library()
    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == base.architecture)
    names = gguf.get_tensor_name_map(architecture, base.layers)
    found: dict[str, NDArray[np.float32]] = {}
    for name, tensor in _loaded(weights).items():
        match = _TENSOR.fullmatch(name)
        target = names.get_name(f"{match['module']}.weight", try_suffixes=(".weight",)) if match else None
        if match is None or target is None or target not in base.shapes:
            raise ValueError(f"the base has no weight for its tensor {name[:120]}")
        inputs, outputs = base.shapes[target]
        wanted = inputs if match["part"] == "A" else outputs
        has = tensor.shape[1 if match["part"] == "A" else 0] if tensor.ndim == 2 else None
        if has != wanted:
            raise ValueError(f"its tensor {name[:120]} has the shape {tensor.shape}: it is an adapter of another base")
        if match["part"] == "B" and ROTATED[base.architecture]:
            heads = {"q_proj": base.heads, "k_proj": base.key_heads}.get(match["module"].rpartition(".")[2])
            tensor = _rotated(tensor, heads) if heads else tensor
        found[f"{target}.lora_{match['part'].lower()}"] = tensor
    if not found:
        raise ValueError("it has no tensors")
    return found


def _loaded(weights: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors as 32-bit floats. Raises ValueError for a file that is cut, or of another type."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: tensor.astype(np.float32) for name, tensor in sorted(load_file(weights).items())}
    except (SafetensorError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{weights.name} cannot be read: {error}") from None


def _rotated(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of each head in llama.cpp's order: the halves of a head, which rotate with each other, interleaved."""
    split = rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1])
    return split.swapaxes(1, 2).reshape(rows.shape)


def _write(tensors: dict[str, NDArray[np.float32]], alpha: float, architecture: str, target: Path) -> None:

    gguf = _library()
    writer = gguf.GGUFWriter(target, architecture)
    try:
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", alpha)
        for name, tensor in tensors.items():
            writer.add_tensor(name, np.ascontiguousarray(tensor))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
