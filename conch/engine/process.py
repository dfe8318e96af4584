"""Entry point of the engine's process, `python -m conch.engine.process`, started by the supervisor."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from conch.clients import http_client
from conch.config import LEAST_WINDOW
from conch.errors import ConfigError
from conch.processes import ChildProcessLink, messages, run_child
from conch.tasks import background

CONTEXT = 8192
"""Tokens of context of each slot, where `mind.context_window` does not say it. Models with a smaller one use theirs."""
_ERROR = re.compile(r"^\S+ E +(.*)$", re.MULTILINE)
"""A line of llama.cpp's log that reports an error."""
_LOG_BYTES = 16 * 1024
LOG_SECONDS = 2.0
PROPS_SECONDS = 30.0
"""Longest wait for the server's own description of itself."""


async def live(child: ChildProcessLink[messages.EngineStart]) -> None:
    """Serve the model until a stop is asked for. Raises ConfigError where it cannot be loaded."""
    stopped = asyncio.Event()
    child.on(messages.StopCommand, lambda _: stopped.set())
    child.on(messages.FinishCommand, lambda _: stopped.set())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    own_log = child.home / "logs" / f"{child.spec.process or 'engine'}.err"
    async with background(end_when(stopped, child), name="conch.engine.end") as ending:
        began = time.monotonic()
        server = await asyncio.to_thread(_serve, child.spec, own_log)
        seconds = time.monotonic() - began
        context = await _context(server.listening_address, child.spec)
        child.report(messages.EngineServed(url=server.listening_address, seconds=seconds, context=context))
        await ending


async def end_when(stopped: asyncio.Event, child: ChildProcessLink[messages.EngineStart]) -> None:
    """End the process as soon as that is asked for: loading a model cannot be cancelled, and llama.cpp's server waits
    for replies that it is decoding. The processes that it has started end with it."""
    await stopped.wait()
    child.report(messages.WorkDone())
    os._exit(0)


def _serve(spec: messages.EngineStart, own_log: Path) -> Any:
    """llama.cpp's server, which listens and has loaded the model. Its threads run until the process ends."""
    log_to(own_log)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(spec.model)
    params.model_alias = {spec.model.stem}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], spec.port, [spec.key]
    params.n_parallel = spec.slots
    local = spec.settings.mind.of_kind("local")
    params.n_ctx = ((local.context_window if local is not None else None) or CONTEXT) * spec.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = processors()
    if spec.adapters:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(file), 0.0) for file in spec.adapters]
        # It is searched by tokens alone: a prompt that one adapter has read would be continued under another one.
        params.cache_ram_mib = 0
    params.ui = False
    params.verbosity = 1  # errors
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ConfigError(f"the engine cannot serve {spec.model}: {_reason(own_log) or error}") from error


def log_to(file: Path) -> None:
    """Write what libraries log to stderr, which is the terminal of the run, to this file, made anew."""
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.dup2(log, 2)
    os.close(log)


async def _context(url: str, spec: messages.EngineStart) -> int:
    """Tokens of context of each slot, as the server says: those that were asked for, or the model's, where these are
    fewer. Raises ConfigError where a prompt and a reply do not fit into them."""
    async with http_client(url, {"authorization": f"Bearer {spec.key}"}, PROPS_SECONDS) as client:
        answer = await client.get(f"{url}/props")
    context = int(answer.raise_for_status().json()["default_generation_settings"]["n_ctx"])
    if context < LEAST_WINDOW:
        raise ConfigError(
            f"{spec.model} has a context of {context} tokens: a prompt and a reply need {LEAST_WINDOW}; choose another "
            "model"
        )
    return context


def processors() -> int:
    """Processors that this process may use, less one for the agents and the bus: threads of llama.cpp wait for each
    other at every layer, and one without a processor holds up all. A container may have fewer than the machine."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, count - 1)


def _reason(log: Path) -> str:
    """The first error that llama.cpp has logged: what follows only repeats that loading failed. Its log is written by a
    thread of its own, which may come a moment after the failure; empty where it does not come within LOG_SECONDS."""
    until = time.monotonic() + LOG_SECONDS
    while (found := _ERROR.search(log.read_bytes()[:_LOG_BYTES].decode(errors="replace"))) is None:
        if time.monotonic() > until:
            return ""
        time.sleep(0.01)
    return found[1].strip()


def main() -> None:
    """Entry point of the process."""
    run_child("engine", messages.EngineStart, live)


if __name__ == "__main__":
    main()
