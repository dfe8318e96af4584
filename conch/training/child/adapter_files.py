"""The files of an adapter: its tensors as safetensors, its configuration as canonical JSON; no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conch.training import CONFIG, WEIGHTS, check_weights
from conch.training.child.failures import TrainingRefusedError
from conch.training.job import BaseDigests

if TYPE_CHECKING:
    import torch


def adapter_tensors(model: Any) -> dict[str, torch.Tensor]:
    """The tensors of the adapter `default`, under the names of PEFT's files."""
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, adapter_name="default")
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in found.items()}


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write the tensors; the file is there only when it is whole. Raises OSError."""
    from safetensors.torch import save

    part = path.with_name(f".{path.name}")
    with part.open("wb") as file:
        file.write(save(dict(tensors), metadata={"format": "pt"}))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_tensors(model: Any, path: Path) -> None:
    """Give the adapter `default` the tensors of a file."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    set_peft_model_state_dict(model, load_file(path), adapter_name="default")


def refuse_broken(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raises TrainingRefusedError where a number is not finite."""
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise TrainingRefusedError(
                f"the trained weights have numbers that are not finite ({name}): lower the learning rate"
            )


def write_adapter(model: Any, digests: BaseDigests, out: Path) -> dict[str, str]:
    """The adapter's directory, under its name only when it is whole: the SHA-256 of each file.

    Raises TrainingRefusedError for weights that are not finite, CheckError for those that servers refuse; OSError.
    """
    tensors = adapter_tensors(model)
    refuse_broken(tensors)
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_tensors(tensors, part / WEIGHTS)
    (part / CONFIG).write_bytes(_config(model, digests))
    check_weights(part)
    part.replace(out)
    return {name: _digest(out / name) for name in (WEIGHTS, CONFIG)}


def _config(model: Any, digests: BaseDigests) -> bytes:
    """PEFT's configuration. Its lists of names are sorted, as they come out of sets; the base is named by its digest,
    as a path is of one machine."""
    about = dict(model.peft_config["default"].to_dict())
    about["base_model_name_or_path"] = f"sha256:{digests.base}"
    about["inference_mode"] = True
    for name, value in about.items():
        if isinstance(value, set | frozenset):
            about[name] = sorted(value)
    return json.dumps(about, sort_keys=True, indent=2, default=str).encode() + b"\n"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
