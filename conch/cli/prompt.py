"""`conch prompt show`: the prompts that were sent to the mind, or the one that would be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cyclopts import App

from conch.cli.common import CommonOptions, emit, open_bus, say
from conch.cli.options import COMMON, AgentName, reading
from conch.cli.people_facts import agent_named
from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.views import PromptRow, Prompts

app = App(name="prompt", help="What the mind is asked with.")


@app.command
async def show(cycle: int | None = None, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The prompts of a cycle as they were sent, with the tokens of each section; those of the last 200 cycles are kept.

    Without a cycle: the prompt that a running agent would send now, else the last ones that were sent.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    home, settings = common.existing(), common.settings()
    name = agent_named(home, settings, agent)
    if cycle is None and home.running() is not None:
        found = await _of_the_run(common, name)
    else:
        found = _kept(common, name, cycle)
    if common.json:
        emit(found)
    else:
        say("\n".join(line for row in found.prompts for line in _lines(row, sent=found.sent)))


async def _of_the_run(common: CommonOptions, name: str) -> Prompts:
    from conch.cycle.state.sent import SentPrompt
    from conch.requests import handed_over
    from conch.views import prompts_shown

    home = common.existing()
    async with open_bus(home, common.settings()) as bus:
        reply = await handed_over(bus, home, name, "prompt", {})
    return prompts_shown(name, [SentPrompt.model_validate(reply["prompt"])], sent=False)


def _kept(common: CommonOptions, name: str, cycle: int | None) -> Prompts:
    """Those of the home's files; else the decision's, as its experience holds it."""
    from conch.cycle.state.sent import sent_prompts
    from conch.views import prompts_shown, recorded_prompt

    if found := sent_prompts(common.existing().agent_dir(name), cycle):
        return prompts_shown(name, found)
    with reading(common, name) as (store, _):
        last = store.cycles.last(name, 1)
        experience = last[-1] if cycle is None and last else store.cycles.get(name, cycle or 0)
    if experience is None or experience.cycle is None:
        which = "any cycle" if cycle is None else f"cycle {cycle}"
        raise UsageError(f"there is no prompt of {which} of {name}: conch cycle list shows the cycles")
    return recorded_prompt(name, experience.cycle, experience.messages)


def _lines(row: PromptRow, *, sent: bool) -> Iterator[str]:
    """A prompt: its sections with their tokens, then its text as it is."""
    by = "by the model's tokenizer" if row.counted == "tokenizer" else "by the estimate, 3 bytes each"
    tokens = f", {row.tokens} tokens {by}" if row.parts else ""
    yield f"{row.purpose} of cycle {row.cycle}, {'sent' if sent else 'not sent yet'}{tokens}"
    for part in row.parts:
        cut = [f"{part.left_out} of {part.entries} left out"] if part.left_out else []
        cut += [f"{part.shortened} shortened"] if part.shortened else []
        yield f"  {part.name:<10} {part.tokens:>6}  {', '.join(cut)}".rstrip()
    if row.system is None:
        yield "-- system: in the event policy.set of this policy"
    else:
        yield f"-- system\n{row.system}"
    for message in row.messages:
        yield f"-- {message.role}\n{message.content}"
