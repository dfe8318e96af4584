"""The home of an agent that a tiny model decides for: its workspace, its rules, its first life, the model.

A new home's mind is the reflex. Its first cycles are the agent's first experiences; the tiny model is made of the
prompts of these, and knows nothing. What is paid is an act by itself: a model that reads prompts of 300 tokens and has
no memory is not held to repetitions and needs.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import yaml
from runs import CONCH

AGENT = "echo"
FIRST_LIFE = 110
"""Cycles of the reflex mind. It has found what is paid after some 30."""
ACTS_BEFORE = 20
"""Cycles that the tiny model decides before its first round: held-out states of the gate are among them."""
KL = 20.0
"""Nats a token: a base that writes no action by itself is 7 to 12 from one that does."""
STATES = 24
"""Held-out states of a gate, at most."""
MODEL_STEPS = 50
"""Steps of the tiny model on the prompts alone."""
TEMPERATURE = 0.3
"""Of its decisions. At 0.7 three of 48 replies of a trained model joined the names of two files, at 0.3 none."""
PROMPT = 384
"""Tokens of a prompt: one with a single task."""
NAMES = ("crabs", "dunes", "fish", "foam", "gulls", "kelp", "rain", "reef", "rocks", "sand", "tides", "waves", "wind")
FILES = {f"notes/{name}.md": f"What is known of {name}.\n" for name in NAMES}
"""13, as prompts name three at a time: those of the second life are not those of the first."""
TORCH = Lock()
"""Held while torch draws or trains in this process: its seed and its settings are those of all threads."""
RULES = '''"""What is paid beside the form of a reply, and what is held out."""

from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.6, range=(-1.0, 1.0))
def reads(action: ActionTaken) -> float:
    """1 for a file of the workspace that was read, else -1."""
    return 1.0 if action.action.skill == "filesystem.read" and action.outcome.status == "success" else -1.0


@rule(held_out=True)
def unharmed(action: ActionTaken) -> float:
    """1 for a call that ended well and changed nothing, else 0. It is never paid and never trained on."""
    return float(action.outcome.status == "success" and (action.effect is None or action.effect.kind != "change"))
'''


@dataclass(frozen=True)
class TinyHome:
    """A home with its files; `make` writes them."""

    place: Path
    """The directory of all of it but the model."""
    seed: int
    base: Path
    """The tiny model."""

    @property
    def path(self) -> Path:
        """The home."""
        return self.place / "home"

    @property
    def rules(self) -> Path:
        """The file of rules."""
        return self.place / "rules.py"

    def make(self) -> None:
        """Write the workspace, the rules and the settings of the first life.

        Its prompts are made as for a model that reads them, since a fallback does; it is never asked.
        """
        for name, text in FILES.items():
            file = self.place / "workspace" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.rules.write_text(RULES)
        self.conch("init", str(self.path), "--workspace", str(self.place / "workspace"))
        behind = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "none", "prompt_tokens": PROMPT}
        self.settings(mind={"kind": "reflex", "fallbacks": [behind]})

    def settings(self, **more: object) -> None:
        """Write `conch.yaml`, with these sections beside those that all lives have."""
        known: dict[str, object] = {
            "agent": AGENT,
            "seed": self.seed,
            "workspace": str(self.place / "workspace"),
            "cycle": {"interval": 0, "reflect_every": 1000},
            "needs": {"starving": {"factor": 1}},
            "rewards": {
                "weights": {
                    "format": 0.3,
                    "execution": 0.1,
                    "reads": 0.6,
                    **dict.fromkeys(("goal", "needs", "exploration", "unharmed"), 0),
                },
                "repetition": 0,
                "diversity": 0,
            },
            "forks": {"snapshots": "always", "keep": 2000},
            "ui": {"enabled": False},
        }
        (self.path / "conch.yaml").write_text(yaml.safe_dump(known | more))

    def live_first(self) -> None:
        """The cycles of the reflex mind."""
        self.conch("run", "--home", str(self.path), "--rules", str(self.rules), "--cycles", str(FIRST_LIFE))

    def make_model(self, steps: int = MODEL_STEPS) -> None:
        """Write the tiny model, made of the prompts of the first life without their examples: with these it writes some
        actions by itself."""
        prompts, replies = self.prompts()
        asked = [[message for message in prompt if message["role"] != "assistant"] for prompt in prompts[::2]]
        with TORCH:
            import torch

            from conch.training.tiny import make_tiny_model

            torch.set_num_threads(1)
            make_tiny_model(self.base, asked, replies, seed=self.seed, steps=steps)

    def prompts(self) -> tuple[list[list[dict[str, str]]], list[str]]:
        """All recorded prompts as messages, the system prompt first, and the replies to them."""
        from conch.experience import store_location

        prompts, replies = [], []
        with store_location(None, self.path).reader() as reader:
            systems = reader.examples.systems()
            for one in reader.examples.walk(prompts=True):
                said = [{"role": message.role, "content": message.content} for message in one.messages]
                prompts.append([{"role": "system", "content": systems.get(one.act.policy or "", "")}, *said])
                replies.append(one.act.data.raw)
        return prompts, replies

    def decide_by_model(self) -> None:
        """The settings of the life in which the tiny model decides, and is trained."""
        self.settings(
            mind={
                "kind": "transformers",
                "model": str(self.base),
                "prompt_tokens": PROMPT,
                "max_tokens": 28,
                "temperature": TEMPERATURE,
                "think": {"kind": "reflex"},
            },
            cycle={"interval": 0.4, "reflect_every": 1000},
            training={
                "enabled": True,
                "every": FIRST_LIFE + ACTS_BEFORE,
                "min_experiences_for_training": FIRST_LIFE + ACTS_BEFORE,
                "load": 1000,
                "review": "none",
                "learning_rate": 0.006,
                "epochs": 8,
                "batch_size": 4,
                "gradient_accumulation": 1,
                "gate": {"states": STATES, "kl": KL},
                "trial": {"shadow": 3, "block": 1},
                "keep": 100,
            },
        )

    def conch(self, *words: str) -> str:
        """What a command of `conch` prints. Raises RuntimeError where it fails."""
        ran = subprocess.run([str(CONCH), *words], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(f"conch {' '.join(words)} ended with {ran.returncode}: {ran.stderr[-2000:]}")
        return ran.stdout
