"""A tiny model without knowledge, made from a configuration: a base on which the whole loop runs in seconds.

Its tokenizer is trained on the prompts that it will read, so that these take few tokens. Its weights are drawn, then
trained for a moment on the prompts alone, as a pretrained model has read texts: decoded freely it writes prompts, never
an action, and a LoRA adapter can teach it the form of one. A drawn model alone learns that too slowly: after 100 steps
of SFT no reply of 8 was valid, after 200 steps on the prompts and these 100 steps 5 of 8; at width 128, after 120,
28 of 33.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML."""
VOCABULARY: Final = 1024
"""Tokens: 256 of these are bytes."""
HIDDEN: Final = 128
LAYERS: Final = 2
CONTEXT: Final = 8192
LAYER: Final = 0.1
"""Standard deviation of the layers' weights: with the usual 0.02 they pass on too little at this width."""
HEAD: Final = 0.2
"""Standard deviation of the output layer, which LoRA leaves as it is: with the usual 0.02 no logit gets above 2."""
STEPS: Final = 200
"""Steps on the prompts."""
_RATE: Final = 3e-3
_BATCH: Final = 4
_SPECIAL: Final = ("<|pad|>", "<|im_start|>", "<|im_end|>")


def make_tiny_model(
    folder: Path,
    prompts: Sequence[Sequence[Mapping[str, str]]],
    replies: Iterable[str] = (),
    *,
    seed: int = 0,
    vocabulary: int = VOCABULARY,
    hidden: int = HIDDEN,
    steps: int = STEPS,
) -> Path:
    """Write the model and its tokenizer to a directory that transformers loads.

    The tokenizer is trained on the messages of the prompts and the replies, the weights on the prompts alone, for
    `steps` steps of 4. `hidden`: its width, a multiple of 8. The same arguments give the same weights.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer([*(message["content"] for prompt in prompts for message in prompt), *replies], vocabulary)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            initializer_range=LAYER,
            tie_word_embeddings=False,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    torch.nn.init.normal_(model.get_input_embeddings().weight, std=1.0)
    torch.nn.init.normal_(model.get_output_embeddings().weight, std=HEAD)
    if steps:
        asked = [tokenizer.apply_chat_template(list(one), add_generation_prompt=True)["input_ids"] for one in prompts]
        _read(model, asked, steps, seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _read(model: Any, texts: Sequence[Sequence[int]], steps: int, seed: int) -> None:
    """Train all weights on the texts."""
    import torch

    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / 10) * (1 + math.cos(math.pi * step / steps)) / 2
        chosen = [list(texts[at]) for at in torch.randint(len(texts), (_BATCH,), generator=drawn).tolist()]
        longest = max(map(len, chosen))
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in chosen])
        seen = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in chosen])
        model(input_ids=ids, attention_mask=seen, labels=ids.masked_fill(seen == 0, -100)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    learning = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(texts, learning)
    pad, _, end = _SPECIAL
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=pad, eos_token=end, chat_template=TEMPLATE)
