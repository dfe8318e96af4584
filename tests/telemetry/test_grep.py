"""One action id greps through all services: a whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CONCH = Path(sys.executable).with_name("conch")
RULE = """
from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.1)
def brevity(action: ActionTaken) -> float:
    return 1.0
"""


def test_one_action_id_greps_through_all_services(tmp_path: Path) -> None:
    """With `log.level: debug`: the agent's own facts, and each consumer that had to do with the act,
    a rule and the store too; every line of every log is one JSON object."""
    home = tmp_path / "home"
    (tmp_path / "script.txt").write_text("DO_NOTHING: resting\nDO_NOTHING: resting\n")
    (tmp_path / "rules.py").write_text(RULE)
    command = [str(CONCH), "run", "--home", str(home), "--script", str(tmp_path / "script.txt"), "--json"]
    command += ["--rules", str(tmp_path / "rules.py"), "--interval", "0"]
    environment = os.environ | {"CONCH_LOG__LEVEL": "debug", "CONCH_MIND__KIND": "scripted"}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout.splitlines()[0])["action_id"]
    told = [json.loads(line) for file in (home / "logs").glob("*.log") for line in _lines(file)]
    of_first = [line for line in told if line.get("action_id") == first]
    assert {line["process"] for line in of_first} == {"agent", "consumers"}
    assert {line["event"] for line in of_first if line["process"] == "agent"} >= {"thought.formed", "action.taken"}
    handled = {line["consumer"] for line in of_first if line["event"] == "consumer.handled"}
    assert handled >= {"reward", "needs", "curiosity", "witness", "watch", "rule-brevity"}
    assert "store.joined" in {line["event"] for line in of_first}
    assert all(line["trace_id"] == first.replace("-", "") for line in of_first if "trace_id" in line)


def _lines(file: Path) -> list[str]:
    return [] if file.name == "nats-server.log" else file.read_text().splitlines()
