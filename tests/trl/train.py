"""A few steps of TRL's trainers on exported files as they are: run by an interpreter that has TRL.

argv: a directory to write to, then the directories of four snapshots: SFT, DPO, KTO, GRPO. Prints, as one JSON
document, the losses of each trainer and the columns that it saw.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    KTOConfig,
    KTOTrainer,
    SFTConfig,
    SFTTrainer,
)

from conch import rule
from conch.rewards import format_reward
from conch.trl import as_reward_func
from conch_schemas import ActionTaken

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
VOCABULARY = 384
LONGEST = 16_384


@rule(range=(-1.0, 0.5))
def form(action: ActionTaken) -> float:
    """The format of a reply."""
    return format_reward(action.action.valid)


def rows(snapshot: Path) -> Dataset:
    """The rows of train, read as any user of `datasets` reads them."""
    return load_dataset("parquet", data_files=str(snapshot / "train-*.parquet"), split="train")


def tokenizer(data: Dataset) -> PreTrainedTokenizerFast:
    """Bytes, with few merges, learnt from the prompts."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    texts = [message["content"] for row in data for message in row["prompt"]]
    words.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    made.chat_template = TEMPLATE
    return made


def save_model(folder: Path, words: PreTrainedTokenizerFast) -> str:
    """A model of a few thousand weights with its tokenizer, in a directory as trainers load it: its path."""
    small: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=16,
            max_position_embeddings=LONGEST,
            pad_token_id=0,
            eos_token_id=1,
            **small,
        )
    )
    made.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def main() -> None:
    """One trainer after another."""
    out, *snapshots = map(Path, sys.argv[1:])
    sft, dpo, kto, grpo = (rows(path) for path in snapshots)
    words = tokenizer(grpo)
    model = save_model(out / "model", words)
    common: dict[str, Any] = {
        "output_dir": str(out),
        "per_device_train_batch_size": 2,
        "max_steps": 2,
        "logging_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    whole = {"max_length": LONGEST}
    made: dict[str, Any] = {
        "sft": SFTTrainer(model, args=SFTConfig(**common, **whole), train_dataset=sft, processing_class=words),
        "dpo": DPOTrainer(model, args=DPOConfig(**common, **whole), train_dataset=dpo, processing_class=words),
        "kto": KTOTrainer(model, args=KTOConfig(**common, **whole), train_dataset=kto, processing_class=words),
        "grpo": GRPOTrainer(
            model,
            reward_funcs=[as_reward_func(form)],
            args=GRPOConfig(**common, num_generations=2, max_completion_length=8),
            train_dataset=grpo,
            processing_class=words,
        ),
    }
    told = {}
    for name, trainer in made.items():
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        told[name] = {
            "steps": trainer.state.global_step,
            "finite": all(map(math.isfinite, losses)) and len(losses) == 2,
        }
    print(json.dumps(told))


main()
