"""One step of a real GRPO training on rules, with a model of a few hundred weights: run by an interpreter that has TRL.

Prints, as one JSON document, what the trainer drew from each reward function: the table that its own code made.
"""

from __future__ import annotations

import json
import sys
from typing import Any, ClassVar

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from conch import rule
from conch.rewards import execution_reward, format_reward
from conch.trl import as_reward_func
from conch_schemas import ActionTaken

WORDS = ("<pad>", "<eos>", "[UNK]", "DO_NOTHING", "TOOL", ":", "shell", "ls")
REPLIES = ("DO_NOTHING: quiet", 'TOOL: shell(command="ls")', "prose", 'TOOL: shell(command="pwd")')


@rule(range=(-1.0, 0.5))
def form(action: ActionTaken) -> float:
    """The format of a reply."""
    return format_reward(action.action.valid)


@rule(range=(-0.3, 1.0))
async def execution(action: ActionTaken) -> float | None:
    """What the act did, where somebody knows."""
    if action.outcome.status == "unknown":
        return None
    return execution_reward(action.action.kind, action.action.valid, action.outcome.status == "success")


@rule(range=(0.0, 1.0))
def broken(_: ActionTaken) -> float:
    """Fails on every reply."""
    raise ValueError("no")


class Trainer(GRPOTrainer):
    """Notes the table of rewards that TRL's own code makes."""

    tables: ClassVar[list[Any]] = []

    def _calculate_rewards(self, *args: Any) -> Any:
        table = super()._calculate_rewards(*args)
        self.tables.append([[None if cell != cell else round(cell, 6) for cell in row] for row in table.tolist()])
        return table


def main() -> None:
    """argv: a directory to write to."""
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    small: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    trainer = Trainer(
        model=LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), hidden_size=8, intermediate_size=8, **small)),
        reward_funcs=[as_reward_func(form), as_reward_func(execution), as_reward_func(broken)],
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="[UNK]"
        ),
        train_dataset=Dataset.from_list([{"prompt": "ls :", "outcome": "error"}]),
        args=GRPOConfig(
            output_dir=sys.argv[1],
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=8,
            max_steps=1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
    )
    trainer.train()
    texts = {"prompts": ["p"] * 4, "completions": list(REPLIES)}
    outcomes = [{"prompt": "p", "outcome": outcome} for outcome in ("none", "success", "none", None)]
    trainer._calculate_rewards(outcomes, *texts.values(), [[3]] * 4)
    talks = [[{"role": "assistant", "content": reply}] for reply in REPLIES]
    trainer._calculate_rewards(outcomes, [[{"role": "user", "content": "p"}]] * 4, talks, [[3]] * 4)
    print(json.dumps({"tables": trainer.tables, "names": trainer.reward_func_names}))


main()
