"""Entry point of the engine of the mind `transformers`, `python -m conch.engine.pytorch.process`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

from conch.config import LEAST_WINDOW
from conch.engine.front.app import EngineFront
from conch.engine.front.listen import serving
from conch.engine.models import served_base
from conch.engine.process import CONTEXT, end_when, log_to, processors
from conch.errors import ConfigError
from conch.processes import ChildProcessLink, messages, run_child
from conch.tasks import background

if TYPE_CHECKING:
    from conch.engine.pytorch.engine import TorchEngine


async def live(child: ChildProcessLink[messages.EngineStart]) -> None:
    """Serve the base, and adapters as they are loaded, until a stop is asked for. Raises ConfigError where the base
    cannot be served."""
    stopped = asyncio.Event()
    child.on(messages.StopCommand, lambda _: stopped.set())
    child.on(messages.FinishCommand, lambda _: stopped.set())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with background(end_when(stopped, child), name="conch.engine.end") as ending:
        began = time.monotonic()
        engine, context = await asyncio.to_thread(_loaded, child.spec)
        async with serving(EngineFront(engine, child.spec.key), child.spec.port) as url:
            child.report(messages.EngineServed(url=url, seconds=time.monotonic() - began, context=context))
            await ending


def _loaded(spec: messages.EngineStart) -> tuple[TorchEngine, int]:
    """The engine, and its tokens of context. Raises ConfigError."""
    log_to(spec.home / "logs" / "engine.err")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch

        from conch.engine.pytorch.engine import TorchEngine
        from conch.engine.pytorch.model import TorchModel
    except ImportError as error:
        raise ConfigError(f"the kind transformers lacks {error.name}: pip install 'conch-agent[train]'") from None
    torch.set_num_threads(processors())
    mind = spec.settings.mind.of_kind("transformers")
    model = TorchModel(spec.model, (mind.context_window if mind is not None else None) or CONTEXT)
    if model.context < LEAST_WINDOW:
        raise ConfigError(
            f"{spec.model} has a context of {model.context} tokens: a prompt and a reply need {LEAST_WINDOW}; choose "
            "another model"
        )
    return TorchEngine(model, served_base(spec.model)), model.context


def main() -> None:
    """Entry point of the process."""
    run_child("engine", messages.EngineStart, live)


if __name__ == "__main__":
    main()
