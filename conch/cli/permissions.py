"""`conch bus permissions`: the configuration of users for a NATS server that the person runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, say, warn
from conch.cli.options import COMMON
from conch.config import Settings
from conch.consumer.operations import AGENT, COMMANDS, ROLE, RUN, BusUser, PublishedKinds, program_user
from conch.errors import HomeError, UsageError
from conch.home import write_whole
from conch_schemas import HUMAN_SCORER, RewardAssigned
from conch_schemas.envelope import AGENT_PATTERN

_HEAD = """\
# Who may do what on the bus of Conch. Put `include "this file"` into the configuration of your nats-server, which has
#   jetstream { store_dir: "…", sync_interval: always }
# Each user's key stands in a file of its own, made when it was not there; here is its public half alone. Its file says
# who somebody is, on whatever machine: CONCH_BUS__URL=nats://… CONCH_BUS__NKEY=<file> conch consume reward
"""


def permissions(
    *,
    agents: Annotated[
        str | None, Parameter(help="Names of the agents, separated by commas; without them facts of any agent.")
    ] = None,
    rules: Annotated[
        list[Path] | None, Parameter(consume_multiple=True, help="Python file of plug-ins; several, and repeatable.")
    ] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Print a NATS server's configuration in which each consumer may publish its own facts alone."""
    from conch.consumer.operations import users
    from conch.consumer.plugins import wanted_builtin

    home, settings = common.existing(), common.settings()
    names = tuple(name.strip() for name in (agents or "").split(",") if name.strip())
    for name in names:
        if not re.fullmatch(AGENT_PATTERN, name):
            raise UsageError(f"--agents {name}: a name is small letters, digits and hyphens")
    builtin = wanted_builtin(settings, ())
    said = said_by(builtin, settings)
    said |= _plugins([str(rule) for rule in rules or ()], settings)
    outside = sorted(
        {part.scorer or name for name, part in settings.rewards.parts.items()} - {HUMAN_SCORER} - said.keys()
    )
    programs = {program_user(name) for name in names or ("*",)}
    for name in sorted({*said, *outside} & {AGENT, COMMANDS, RUN, ROLE, *programs}):
        raise UsageError(f"a consumer is named {name}, as a user of another kind is: give it another name")
    found = users(said, builtin, names, outside)
    keys = {user.name: _key(home.keys / f"{user.name}.nk") for user in found}
    if common.json:
        from conch.views import Permissions, UserRow

        rows = tuple(UserRow(**_row(user, *keys[user.name])) for user in found)
        emit(Permissions(users=rows))
    else:
        say(configuration(found, {name: public for name, (public, _) in keys.items()}, home.keys))


def said_by(names: Sequence[str], settings: Settings) -> dict[str, PublishedKinds]:
    """The subjects that each of these built-in consumers publishes and serves."""
    from conch.consumer.plugins import builtin_plugins

    known = builtin_plugins(settings)
    return {name: PublishedKinds(tuple(known[name].emits), tuple(known[name].serves)) for name in names}


def _plugins(rules: Sequence[str], settings: Settings) -> dict[str, PublishedKinds]:
    """The subjects that each plug-in publishes; a warning for a plug-in without that information, which may publish
    none."""
    from conch.consumer.plugins import discover, reserved

    found = discover(rules, reserved(settings), settings)
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    for plugin in found.consumers:
        if not plugin.emits and not plugin.is_service:
            warn(f"{plugin.name} does not say what it publishes: give its function a return annotation")
    said = {rule.consumer: PublishedKinds((RewardAssigned.TYPE,)) for rule in found.rules}
    return said | {plugin.name: PublishedKinds(tuple(plugin.emits), tuple(plugin.serves)) for plugin in found.consumers}


def _key(file: Path) -> tuple[str, Path]:
    """The public half of the key in this file, made where there is none."""
    import nkeys

    from conch.bus import read_nkey

    if not file.exists():
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(file, nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode() + "\n")
        except OSError as error:
            raise HomeError(f"{file} cannot be written ({error.strerror}): mend that or name another --home") from error
    return read_nkey(str(file), "the key").public, file


def _row(user: BusUser, public: str, file: Path) -> dict[str, object]:
    return {
        "name": user.name,
        "for": user.command,
        "nkey": public,
        "file": str(file),
        "publish": tuple(user.publish),
        "subscribe": (*_inbox(public), *user.subscribe),
    }


def _inbox(public: str) -> list[str]:
    from conch.bus import inbox_of

    return [f"{inbox_of(public)}.>"]


def configuration(users: Sequence[BusUser], keys: Mapping[str, str], place: Path) -> str:
    shown = [
        _HEAD.replace("<file>", f"{place}/reward.nk"),
        "accounts {",
        "  CONCH {",
        "    jetstream: enabled",
        "    users: [",
    ]
    for user in users:
        public = keys[user.name]
        shown += [
            f"      # {user.name}: {user.command}",
            f"      {{ nkey: {public}, permissions: {{",
            f"        publish: {{ allow: [{_listed(user.publish)}] }}",
            f"        subscribe: {{ allow: [{_listed([*_inbox(public), *user.subscribe])}] }}",
            *(['        allow_responses: { max: 1, expires: "2m" }'] if user.subscribe else []),
            "      } }",
        ]
    return "\n".join([*shown, "    ]", "  }", "}"])


def _listed(subjects: Sequence[str]) -> str:
    return "".join(f"\n          {json.dumps(subject)}" for subject in subjects) + "\n        "
