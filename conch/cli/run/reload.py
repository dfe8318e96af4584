"""`conch run --reload`: edited rule files take effect while the run goes on.

Files are polled, not watched: polling also sees an editor that writes a new file and renames it, a mounted directory
and a container's volume; there are few files, and a poll costs microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath

from conch.bus import Bus
from conch.cli.common import CommonOptions
from conch.cli.run.agents import AgentIdentity
from conch.cli.run.describe import set_aside
from conch.cli.run.output import RunOutput
from conch.cli.run.prepare import set_weights
from conch.config import Settings
from conch.consumer.plugins import ConsumerInfo, Discovery, look, reserved, together
from conch.errors import ConchError, ContractError
from conch.processes import text_of
from conch.rules import RuleInfo

POLL_SECONDS = 0.25
"""Seconds between two polls. A changed file is read once it was the same at two of them, so not while half written."""
Sign = tuple[int, ...] | None


async def keep_reloading(looked: Mapping[str, Discovery], renew: Callable[[str, Discovery], Awaitable[None]]) -> None:
    """Call `renew` with what a file declares whenever its text changes; never returns.

    `looked`: what each file and package declared at first. A file that is gone or cannot be read is reported once, as
    broken.
    """
    origins = [origin for origin in looked if PurePath(origin).is_absolute()]
    texts = {origin: _text(looked[origin]) for origin in origins}
    signs: dict[str, Sign] = {}
    moving = set(origins)
    """Files that changed at the last poll. All of them at first: they may have changed since discovery."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        for origin in origins:
            sign = _sign(origin)
            if sign != signs.get(origin):
                signs[origin] = sign
                moving.add(origin)
            elif origin in moving:
                moving.discard(origin)
                text = _read(origin)
                if text != texts[origin]:
                    texts[origin] = text
                    await renew(origin, await asyncio.to_thread(look, origin))


async def taken_up(
    bus: Bus,
    identities: Sequence[AgentIdentity],
    settings: Settings,
    common: CommonOptions,
    looked: Mapping[str, Discovery],
    file: str,
    found: Discovery,
    run_output: RunOutput,
) -> tuple[Mapping[str, Discovery], Discovery] | None:
    """(what each file and package declares when `found` is what this one does, all of it), with the weight set
    published where it changed; None where it cannot be used. Both outcomes are reported.

    Weights are conch.yaml's of this moment: `conch reward weights` may have written others since the start.
    """
    merged, words = _merged(looked, file, found)
    plugins = together(merged, reserved(settings), settings)
    try:
        if found.broken:
            raise ContractError(found.broken[0].why)
        rewards = settings.rewards.model_copy(update={"weights": common.settings().rewards.weights})
        settings = settings.model_copy(update={"rewards": rewards})
        await set_weights(bus, identities, settings, plugins)
    except ConchError as error:
        run_output.warn(f"{file} is not taken as it is now, what it was stays in force: {error}")
        return None
    for one in set_aside(settings, plugins):
        if one.origin == file or one.origin.startswith("rewards."):
            run_output.warn(f"set aside: {one.origin}: {one.why}")
    run_output.tell(f"{file} is in force as it is now: {words}")
    return merged, plugins


def _merged(looked: Mapping[str, Discovery], file: str, found: Discovery) -> tuple[dict[str, Discovery], str]:
    """What each file and package declares then, and what changes, in words.

    Consumers stay as they were: each has a process of its own, and a position that its code has reached.
    """
    before = {rule.name: rule for rule in looked[file].rules}
    rules, consumers = found.rules, looked[file].consumers
    now = {rule.name for rule in rules}
    words = [_told(rule, before.get(rule.name)) for rule in rules] + [f"{name} is gone" for name in before.keys() - now]
    if _declared(consumers) != _declared(found.consumers):
        words.append("its consumers change with the next start")
    return {**looked, file: Discovery((*rules, *consumers))}, ", ".join(words) or "it declares no rule"


def _told(rule: RuleInfo, before: RuleInfo | None) -> str:
    if before is None:
        return f"{rule.name} version {rule.version} is new"
    same = "still " if rule.version == before.version else ""
    return f"{rule.name} {same}version {rule.version}"


def _declared(consumers: Sequence[ConsumerInfo]) -> set[tuple[str, str]]:
    return {(one.name, one.version) for one in consumers}


def _text(found: Discovery) -> str | None:
    """The text of a file at discovery; None where that is not known."""
    return next(iter([one.text for one in found.plugins] + [one.text for one in found.broken]), None)


def _sign(file: str) -> Sign:
    """A value that changes whenever the file is written, or a link on its path leads elsewhere; None while there is no
    file."""
    with contextlib.suppress(OSError):
        stat = Path(file).stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev
    return None


def _read(file: str) -> str | None:
    with contextlib.suppress(OSError, ContractError, SyntaxError, UnicodeDecodeError):
        return text_of(file)
    return None
