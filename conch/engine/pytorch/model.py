"""A base model and its adapters in the memory of this process. Only this process imports torch."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from conch.engine.front.engine import EngineRefusalError
from conch.errors import ConfigError
from conch.files import read_plain
from conch_schemas import JsonObject

MOST_CONFIG: Final = 1024 * 1024
"""Most bytes of `adapter_config.json`."""


@dataclass(frozen=True)
class DecodedToken:
    """One token of a reply."""

    token: int
    logprob: float
    """Natural logarithm of its probability by the model, before temperature and nucleus."""


@dataclass(frozen=True)
class TokenSampling:
    """How tokens are drawn."""

    temperature: float
    """0: the most probable one."""
    top_p: float
    seed: int | None
    most: int
    """Most tokens."""


class TorchModel:
    """The base in 32-bit floats, and LoRA adapters beside it. Which adapter is set is a state of the whole model, so a
    lock is held from setting it to the end of the reply."""

    def __init__(self, path: Path, window: int) -> None:
        """Load the base from a directory, or from a GGUF file. `window`: most tokens of its context that are used.

        Raises ConfigError.
        """
        source: JsonObject = {"local_files_only": True}
        if path.is_file():
            source["gguf_file"] = path.name
        folder = path.parent if path.is_file() else path
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **source)
            base: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, **source
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError, TypeError) as error:
            raise ConfigError(f"the engine cannot serve {path}: {_line(error)}") from None
        if not self.tokenizer.chat_template:
            raise ConfigError(f"the engine cannot serve {path}: its tokenizer has no chat template")
        base.requires_grad_(False)
        self._base: Any = base.eval()
        self._peft: Any = None
        """The base with the layers of PEFT; None: without an adapter it has none."""
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        """Name in PEFT, which takes no dots, by served name."""
        self._number = 0
        self.context = min(window, int(getattr(base.config, "max_position_embeddings", window)))
        """Tokens of context."""
        ends = base.generation_config.eos_token_id
        self._ends = {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}

    @property
    def names(self) -> tuple[str, ...]:
        """The adapters that are loaded."""
        return tuple(self._names)

    def load(self, name: str, directory: Path) -> None:
        """Load an adapter, between two replies. Raises EngineRefusalError."""
        try:
            settings = json.loads(read_plain(directory / "adapter_config.json", MOST_CONFIG))
            if settings.get("peft_type") != "LORA":
                raise ValueError("adapter_config.json describes no LoRA adapter")
            tensors = load_file(directory / "adapter_model.safetensors")
            config = LoraConfig.from_pretrained(str(directory), local_files_only=True)
        except (OSError, ValueError, TypeError, AttributeError, SafetensorError) as error:
            raise EngineRefusalError(400, f"the adapter in {directory} cannot be read: {_line(error)}") from None
        config.inference_mode = True
        with self._lock:
            self._number += 1
            inner = f"adapter{self._number}"
            try:
                self._add(inner, config, tensors)
            except (ValueError, RuntimeError, KeyError, TypeError) as error:
                self._drop(inner)
                raise EngineRefusalError(
                    400, f"the adapter in {directory} does not fit the base: {_line(error)}"
                ) from None
            self._names[name] = inner

    def unload(self, name: str) -> None:
        """Drop an adapter, between two replies."""
        with self._lock:
            self._drop(self._names.pop(name))

    def _add(self, inner: str, config: Any, tensors: dict[str, torch.Tensor]) -> None:
        if self._peft is None:
            self._peft = get_peft_model(self._base, config, adapter_name=inner)
        else:
            self._peft.add_adapter(inner, config)
        loaded: Any = set_peft_model_state_dict(self._peft, tensors, adapter_name=inner)
        missing = [key for key in loaded.missing_keys if f".{inner}." in key]
        if other := [*loaded.unexpected_keys, *missing]:
            raise ValueError(f"{len(other)} tensors are missing or unknown, such as {other[0][:120]}")
        self._peft.requires_grad_(False)
        self._peft.eval()

    def _drop(self, inner: str) -> None:
        """Remove an adapter from the model; with the last one the layers of PEFT go."""
        model = self._peft
        if model is not None and inner in model.peft_config:
            if len(model.peft_config) == 1:
                self._base, self._peft = model.unload(), None
            else:
                model.delete_adapter(inner)

    @contextmanager
    def _applied(self, adapter: str | None) -> Iterator[Any]:
        """The model with this adapter set; None: with none."""
        if adapter is not None and adapter not in self._names:
            raise EngineRefusalError(404, f"there is no model {adapter}: it was unloaded")
        if self._peft is None:
            yield self._base
        elif adapter is None:
            with self._peft.disable_adapter():
                yield self._peft
        else:
            self._peft.set_adapter(self._names[adapter])
            yield self._peft

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """The tokens of a prompt, in the model's chat template. Raises EngineRefusalError."""
        try:
            found = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        except Exception as error:  # a template is code of the model's, and raises what it likes
            raise EngineRefusalError(400, f"the chat template refuses the messages: {_line(error)}") from None
        tokens = list(found["input_ids"])
        if len(tokens) >= self.context:
            raise EngineRefusalError(
                400, f"the prompt has {len(tokens)} tokens: it does not fit into the context length of {self.context}"
            )
        return tokens

    def decode(
        self, prompt: list[int], sampling: TokenSampling, adapter: str | None, stopped: threading.Event
    ) -> Iterator[DecodedToken]:
        """The tokens of a reply, without the one that ends it, until that comes, `sampling.most` are out or `stopped`
        is set. Holds the lock until the iterator is closed."""
        drawing = torch.Generator()
        if sampling.seed is not None:
            drawing.manual_seed(sampling.seed)
        else:
            drawing.seed()
        with self._lock, self._applied(adapter) as model, torch.inference_mode():
            cache, given = DynamicCache(), torch.tensor([prompt])
            for _ in range(min(sampling.most, self.context - len(prompt))):
                if stopped.is_set():
                    return
                logits = model(input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
                token = _drawn(logits, sampling, drawing)
                if token in self._ends:
                    return
                yield DecodedToken(token, float(torch.log_softmax(logits.float(), dim=-1)[token]))
                given = torch.tensor([[token]])


def _drawn(logits: torch.Tensor, sampling: TokenSampling, drawing: torch.Generator) -> int:
    """One token: the most probable one, or drawn from the nucleus of `top_p`."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    shares, order = torch.softmax(logits.float() / sampling.temperature, dim=-1).sort(descending=True)
    shares = shares.where(shares.cumsum(0) - shares < sampling.top_p, 0.0)
    return int(order[torch.multinomial(shares, 1, generator=drawing)])


def _line(error: Exception) -> str:
    """An error's words on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
