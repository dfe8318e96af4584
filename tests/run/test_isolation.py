"""What an agent writes into its workspace is never run as the person, whatever it calls it and wherever the run is."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.processes import why_none

if TYPE_CHECKING:
    from tests.run.conftest import House


OTHERS = [
    "aiomqtt",
    "certifi",
    "conch_schemas",
    "conch_services",
    "cyclopts",
    "fastapi",
    "httpx2",
    "jinja2",
    "msgspec",
    "nats",
    "nkeys",
    "numpy",
    "prometheus_client",
    "psutil",
    "pydantic",
    "pydantic_core",
    "rfc8785",
    "rich",
    "sitecustomize",
    "starlette",
    "structlog",
    "typing_extensions",
    "usercustomize",
    "uvicorn",
    "uvloop",
    "yaml",
]
"""Modules that Conch imports, or tries to, or that Python looks for at its start."""
PLUGINS = """
import json, uuid, csv, random
from conch import consumer, follow, rule
from conch_schemas import ActionTaken, CycleReflected

@rule(weight=0.1)
def brevity(action):
    import colorsys, queue
    return 0.5

@consumer(ActionTaken, name="echoes")
def echoes(action):
    import colorsys, queue
    return None
"""


def plant(workspace: Path, names: Iterable[str]) -> Path:
    """A module of each name that notes in a file that it was run, and is then as good as absent."""
    ran = workspace.parent / "ran.txt"
    for name in names:
        text = f"import os\nos.write(os.open({str(ran)!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), b'{name} ')\n"
        (workspace / f"{name}.py").write_text(f"{text}raise ImportError('planted')\n")
    return ran


def test_no_module_of_the_workspace_is_imported(house: House) -> None:
    """A run in the workspace itself acts, scores and records, with rules and consumers of plug-ins; of modules there
    that bear the names of Python's own and of Conch's packages none is run, by no process, also where one is started
    again."""
    rules = house.directory / "rules.py"
    rules.write_text(PLUGINS)
    ran = plant(house.workspace, [*sys.stdlib_module_names, *OTHERS, "conch"])
    house.current = house.workspace

    live = house.run("--rules", str(rules), "--script", house.endless(), "--cycles", "3")
    shown = house.conch("cycle", "show", "1", "--json")

    assert not ran.exists(), ran.read_text()
    assert [row["cycle"] for row in live.rows] == [0, 1, 2]
    assert all(row["complete"] for row in live.rows)
    assert '"brevity"' in shown


@pytest.mark.parametrize("module", [("-m", "conch.cli.main"), ("-m", "conch"), ("-mconch",)], ids=" ".join)
def test_python_m_takes_the_current_directory_off_the_path(house: House, module: tuple[str, ...]) -> None:
    """`python -m conch` imports nothing from there; a run in its workspace is refused all the same, for what Python
    itself imports before it comes to conch."""
    ran = plant(house.workspace, ["json", "queue", "uuid", "random", *OTHERS])
    house.current, house.command = house.workspace, [sys.executable, *module]

    house.conch("init")
    sentence = house.refused("run", "--workspace", ".", "--cycles", "1", status=2)

    assert not ran.exists(), ran.read_text()
    assert f"Python looks for modules in {house.workspace}" in sentence


def test_paths_that_are_relative_are_relative_to_where_the_run_was_started(house: House) -> None:
    """A home, a file of settings, rules, a script and a workspace that are named so are found by every process."""
    (house.directory / "rules.py").write_text(PLUGINS)
    (house.directory / "own.yaml").write_text("mind: {kind: scripted, script: replies.txt}\nworkspace: work\n")
    (house.directory / "work").mkdir()
    house.script("DO_NOTHING: resting", "DO_NOTHING: still", name="replies.txt")
    house.current, house.home = house.directory, Path("home")

    live = house.start(
        *("run", "--config", "own.yaml", "--rules", "rules.py", "--cycles", "2", "--interval", "0", "--json")
    )

    assert live.ended() == 0, live.told()
    assert [row["raw"] for row in live.rows] == ["DO_NOTHING: resting", "DO_NOTHING: still"]
    assert (house.directory / "home" / "store.db").exists()


def test_a_plug_in_imports_what_pythonpath_names(house: House) -> None:
    """Directories of PYTHONPATH count for plug-ins too, also relative ones."""
    (house.directory / "lib").mkdir()
    (house.directory / "lib" / "known_words.py").write_text("WORTH = 0.75\n")
    (house.directory / "rules.py").write_text(
        "from conch import rule\nimport known_words\n@rule()\ndef known(action): return known_words.WORTH\n"
    )
    house.current = house.directory

    live = house.run("--rules", "rules.py", "--script", house.endless(), "--cycles", "1", PYTHONPATH="lib")

    assert "set aside" not in live.said
    assert '"value": 0.75' in house.conch("cycle", "show", "0", "--json")


SPIES = """
import json, os, sys
from conch import consumer, rule
from conch_schemas import ActionTaken

def spy(name):
    frame, told = sys._getframe(), None
    while frame is not None:
        child = frame.f_locals.get("child")
        told = getattr(child, "spec", told)
        frame = frame.f_back
    settings = json.loads(told.encode())["settings"] if told is not None else None
    found = {"environment": dict(os.environ), "told": settings}
    with open(PLACE + "/" + name + ".json", "w") as file:
        json.dump(found, file)

spy("imported")

@rule()
def watchful(action):
    spy("rule")
    return 0.5

@consumer(ActionTaken, name="listener")
def listener(action):
    spy("consumer")
"""


def test_plug_ins_do_not_see_the_models_key(house: House) -> None:
    """Neither rules nor consumers, among their variables or their settings, at whatever moment; they see other
    variables, and secrets that are named for them."""
    (house.directory / "spies.py").write_text(SPIES.replace("PLACE", repr(str(house.directory))))
    secrets = {
        "CONCH_MIND__API_KEY": "sk-secret",
        "OPENAI_API_KEY": "sk-secret",
        "CONCH_UI__TOKEN": "sk-secret-of-the-page",
        "CONCH_OTEL__HEADERS": "{Authorization: sk-secret}",
    }

    house.run(
        *("--rules", str(house.directory / "spies.py"), "--script", house.endless(), "--cycles", "2"),
        **secrets,
        PLUGIN_KEY="for plug-ins",
        ORDINARY="seen",
    )

    for name in ("imported", "rule", "consumer"):
        text = (house.directory / f"{name}.json").read_text()
        assert "sk-secret" not in text, name
        assert '"PLUGIN_KEY": "for plug-ins"' in text
        assert '"ORDINARY": "seen"' in text
    assert json.loads((house.directory / "consumer.json").read_text())["told"]["agent"] == "echo"


KILLER = """
import os, signal
from conch import rule

@rule()
def killer(action):
    os.kill(os.getppid(), signal.SIGKILL)
    return 0.5
"""


@pytest.mark.skipif(why_none() is not None, reason=f"no process can have a namespace of its own here: {why_none()}")
def test_a_rule_that_kills_its_parent_takes_no_scoring_down(house: House) -> None:
    """Its signals reach its own processes: it is scored, and no process of the run was started again."""
    (house.directory / "killer.py").write_text(KILLER)
    live = house.begin("--rules", str(house.directory / "killer.py"), "--script", house.endless(), interval=0.05)

    live.recorded(3)
    processes = house.status()["processes"]
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert {one["restarts"] for one in processes} == {0}
    assert all(row["complete"] for row in live.rows)
    assert '"killer"' in house.conch("cycle", "show", "1", "--json")
