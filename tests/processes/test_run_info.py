"""run.json: written by one version of Conch, read by another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.home import Home
from conch.run_info import BusLocation, ProcessInfo, RunInfo, SetAsidePlugin
from conch_schemas.envelope import AGENT_PATTERN

WRITTEN = """{"pid": 4711, "agents": ["echo"], "config": "/h/conch.yaml", "started": "2026-11-23T03:35:14+00:00", "bus":
{"url": "nats://127.0.0.1:40123", "embedded": true, "user": "conch", "token": "t0ken"}, "metrics":
"http://127.0.0.1:9464/metrics", "ui": "http://127.0.0.1:26624", "mqtt": null, "store": "/h/store.db", "workspace":
"/h/workspace", "processes": [{"name": "nats-server", "pid": 4712, "state": "up", "restarts": 0, "why": ""}, {"name":
"consumers", "pid": null, "state": "restarting", "restarts": 1, "why": "SIGKILL"}], "consumers": ["reward", "store",
"rule-brevity"], "rules": [{"kind": "rule", "name": "brevity", "origin": "/h/brevity.py", "version": "1", "weight": 0.2,
"low": 0.0, "high": 1.0, "timeout": null, "doc": "Short is good.", "emits": [], "held_out": false, "stateful": false,
"window": null, "text": null}], "set_aside": [{"origin": "bad.py", "why": "SyntaxError"}]}"""
"""As it was written before RunInfo was."""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
places = st.none() | texts.map(lambda text: text.replace("\0", ""))


def test_what_was_written_before_is_read_and_written_alike() -> None:
    """Commands of a version before this one read what this one writes: the keys and shapes are the same."""
    found = RunInfo.decode(WRITTEN.encode())

    assert (found.pid, found.agents, found.consumers) == (4711, ("echo",), ("reward", "store", "rule-brevity"))
    assert found.bus == BusLocation(url="nats://127.0.0.1:40123", embedded=True, user="conch", token="t0ken")
    assert found.processes[1] == ProcessInfo(name="consumers", state="restarting", restarts=1, why="SIGKILL")
    assert (found.rules[0]["name"], found.set_aside) == (
        "brevity",
        (SetAsidePlugin(origin="bad.py", why="SyntaxError"),),
    )
    assert json.loads(found.encode()) == json.loads(WRITTEN)


@given(
    st.builds(
        RunInfo,
        pid=st.integers(1, 2**22),
        agents=st.lists(st.from_regex(AGENT_PATTERN.replace("$", r"\Z")), max_size=3).map(tuple),
        bus=st.builds(
            BusLocation,
            url=texts.filter(lambda text: "@" not in text),
            embedded=st.booleans(),
            user=places,
            token=places,
        ),
        **dict.fromkeys(("config", "started", "metrics", "ui", "mqtt", "store", "workspace"), places),
        processes=st.lists(st.builds(ProcessInfo, name=texts, state=texts, why=texts), max_size=2).map(tuple),
    )
)
def test_a_run_is_read_as_it_was_written(run: RunInfo) -> None:
    """Whatever it tells."""
    assert RunInfo.decode(run.encode().encode()) == run


def test_a_key_that_is_not_known_or_missing_is_no_matter() -> None:
    """Of a version after this one, and of one long before."""
    assert RunInfo.decode(b'{"pid": 7, "newer": {"a": 1}}') == RunInfo(pid=7)


def test_a_path_that_is_not_utf8_is_shown_with_a_question_mark() -> None:
    """The run is found all the same, also where the file has the byte as a lone surrogate."""
    odd = os.fsdecode(b"/h/\xff")

    assert RunInfo.decode(RunInfo(pid=7, workspace=odd).encode().encode()).workspace == "/h/?"
    assert RunInfo.decode(json.dumps({"pid": 7, "workspace": odd}).encode()).workspace == "/h/?"


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"garbage", b"[]", b"7", b"{}", b'{"pid": "many"}', b"\xff", b"[" * 100_000),
        *(b'{"pid": 7, "agents": ["a b"]}', b'{"pid": 7, "agents": ["../.."]}', b'{"pid": 7, "config": "/\\u0000"}'),
        *(b'{"pid": 7, "rules": [{}]}', b'{"pid": 7, "rules": [{"name": "x", "origin": 5}]}'),
        b'{"pid": 7, "bus": {"url": "nats://a@h:1,nats://b@h:1"}}',
    ],
)
def test_garbage_is_no_run(text: bytes, tmp_path: Path) -> None:
    """Other commands find none in progress; why is said while a process owns the home."""
    with pytest.raises(ValueError, match=r"."):
        RunInfo.decode(text)
    home = Home(tmp_path)
    with home.owned():
        home.run_file.write_bytes(text)
        assert home.running() is None
        assert home.run_damage().startswith(f"{home.run_file} is damaged, so a run in progress would not be found")
    assert home.run_damage() == ""


def test_only_a_file_that_is_there_is_damaged(tmp_path: Path) -> None:
    """Not that of a home without one, which has no lock yet, nor one that is in order; a directory cannot be read."""
    home = Home(tmp_path)
    assert home.run_damage() == ""
    with home.owned():
        assert home.run_damage() == ""
        home.run_file.write_text(RunInfo(pid=7).encode())
        assert home.run_damage() == ""
        home.run_file.unlink()
        home.run_file.mkdir()
        assert home.run_damage().startswith(f"{home.run_file} cannot be read (Is a directory), so a run")
