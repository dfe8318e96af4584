"""Values of one's own in a run: signed, read once, enforced, and in every mark."""

from __future__ import annotations

import hashlib
import json
import signal
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from tests.run.conftest import House


TEXT = """\
values:
  patience: You wait for the tide.
guardrails:
  - name: no-echo
    why: Nothing is echoed.
    skills: [shell]
    says: [echo]
"""
ECHO = 'TOOL: shell(command="echo hello")'


def signed(house: Any) -> tuple[Any, str]:
    """The file, signed and named in the settings from now on, and its digest."""
    file = house.directory / "values.yaml"
    file.write_text(TEXT)
    made = json.loads(house.conch("values", "sign", str(file), "--key", str(house.directory / "secret"), "--json"))
    house.environment |= {"CONCH_VALUES__FILE": made["file"], "CONCH_VALUES__KEY": made["key"]}
    return file, made["digest"]


def marks(house: Any) -> list[dict[str, Any]]:
    """All of them."""
    found: list[dict[str, Any]] = json.loads(house.conch("mark", "list", "--limit", "1000", "--json"))["marks"]
    return found


def test_they_hold_for_a_whole_run_whatever_becomes_of_the_file(house: House) -> None:
    """Also for an agent that is started again; the next run refuses a file that was changed."""
    file, digest = signed(house)
    live = house.begin("--script", house.endless(ECHO), interval=0.1)
    live.recorded(2)
    file.write_text(TEXT.replace("echo]", "nothing]"))
    psutil.Process(house.process("agent")["pid"]).kill()
    live.recorded(3)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()
    refused = house.refused("run", "--cycles", "1", "--script", house.endless(), status=2)

    assert {row["outcome"] for row in house.cycles()} == {"blocked"}
    assert "the guardrail no-echo forbids it: Nothing is echoed." in house.conch("cycle", "show", "0")
    assert {mark["values"] for mark in marks(house) if mark["domain"] != "weights"} == {digest}  # set before the policy
    assert digest == hashlib.sha256(TEXT.encode()).hexdigest()
    house.conch("mark", "verify")
    assert "values.yaml is not what was signed" in refused


def test_marks_say_which_values_held_when(house: House) -> None:
    """Those that come along first, then others; the chain is one."""
    house.run("--cycles", "1", "--script", house.endless(ECHO))
    _, digest = signed(house)
    house.run("--cycles", "1", "--script", house.endless(ECHO))

    first, second = json.loads(house.conch("cycle", "list", "--json"))["cycles"]
    digests = [mark["values"] for mark in marks(house) if mark["domain"] != "weights"]  # set before the policy
    assert (first["outcome"], second["outcome"]) == ("success", "blocked")
    assert digests == sorted(digests, key=lambda one: one == digest)
    assert len(set(digests)) == 2
    house.conch("mark", "verify")
