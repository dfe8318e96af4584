"""The base: its weights in 32 bits, its tokenizer, and the digests of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conch.training.child.failures import TrainingRefusedError
from conch.training.job import BaseDigests, TrainingJob

_CONFIG: Final = "config.json"
_WEIGHTS: Final = "*.safetensors"


@dataclass(frozen=True)
class BaseModel:
    """A loaded base."""

    model: Any
    tokenizer: Any
    digests: BaseDigests
    context: int
    """Most tokens of a text."""


def load_base(job: TrainingJob) -> BaseModel:
    """The base of a job.

    Raises TrainingRefusedError where there is none, where it has no chat template, and where it is another than the job
    names: weights, tokenizer or template.
    """
    path, named = (
        job.base,
        {"base": job.base_digest, "tokenizer": job.tokenizer_digest, "template": job.template_digest},
    )
    digest = _weights_digest(path)
    _refuse_other("base", named["base"], digest, path)
    tokenizer = _loaded("AutoTokenizer", path)
    if not tokenizer.chat_template:
        raise TrainingRefusedError(f"the base {path} has no chat template: take a model that was trained to chat")
    digests = BaseDigests(
        base=digest, tokenizer=_tokenizer_digest(tokenizer), template=_sha256(tokenizer.chat_template)
    )
    _refuse_other("tokenizer", named["tokenizer"], digests.tokenizer, path)
    _refuse_other("chat template", named["template"], digests.template, path)
    model = _loaded("AutoModelForCausalLM", path)
    if path.is_file():  # its weights were unpacked to 32 bits; transformers' trainer would refuse it as quantised
        model.is_quantized = False
        model.hf_quantizer = None
        del model.config.quantization_config
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.use_cache = True
    return BaseModel(model, tokenizer, digests, int(getattr(model.config, "max_position_embeddings", 0)) or 2**31)


def _loaded(kind: str, path: Path) -> Any:
    import torch
    import transformers
    from safetensors import SafetensorError

    where: dict[str, object] = {"local_files_only": True, "trust_remote_code": False}
    if path.is_file():
        where["gguf_file"] = path.name
    elif kind == "AutoModelForCausalLM":
        where["use_safetensors"] = True
    if kind == "AutoModelForCausalLM":
        where["dtype"] = torch.float32
    try:
        return getattr(transformers, kind).from_pretrained(str(path.parent if path.is_file() else path), **where)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        if isinstance(error, SafetensorError) and "deserializing" not in str(error):
            raise  # of memory, or of the disk: not the file's fault
        said = " ".join(str(error).split())[:200]
        raise TrainingRefusedError(f"the base {path} cannot be loaded: {said}") from error


def _refuse_other(what: str, named: str | None, found: str, path: Path) -> None:
    if named is not None and named != found:
        raise TrainingRefusedError(
            f"the {what} of {path} is {found[:12]}…, and the job is for {named[:12]}…: an adapter fits one base alone; "
            "begin a new lineage for this one"
        )


def _weights_digest(path: Path) -> str:
    if path.is_file():
        return _file_digest(path)
    files = sorted(path.glob(_WEIGHTS))
    if not (path / _CONFIG).is_file() or not files:
        raise TrainingRefusedError(
            f"there is no base at {path}: name a GGUF file, or a directory with {_CONFIG} and safetensors"
        )
    about = [[file.name, _file_digest(file)] for file in (path / _CONFIG, *files)]
    return _sha256(json.dumps(about))


def _tokenizer_digest(tokenizer: Any) -> str:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise TrainingRefusedError("the base has a tokenizer without a fast form: take a base with a tokenizer.json")
    special = {name: str(token) for name, token in sorted(tokenizer.special_tokens_map.items())}
    return _sha256(json.dumps([json.loads(backend.to_str()), special], sort_keys=True))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
