"""A run with a mind and a tool of an installed package, and one beside a broken package."""

from __future__ import annotations

import json

import pytest

from tests.packages import MIND, Install
from tests.packages import install as install
from tests.run.conftest import House

POINTS = "[conch.minds]\noracle = oracle_plugin:Oracle\n[conch.tools]\ndice = oracle_plugin:dice\n"


def test_an_agent_thinks_and_acts_with_what_a_package_registers(house: House, install: Install) -> None:
    """The run names the tool; its acts have the outcome and the rewards of any other; the mind learns."""
    path = str(install(POINTS, MIND))

    run = house.begin("--mind", "oracle", interval=0.1, PYTHONPATH=path)
    run.until((house.home / "agents" / "echo" / "mind-oracle").is_file, "what it learnt")
    house.conch("stop", PYTHONPATH=path)

    assert run.ended() == 0, run.told()
    assert "tool dice from conch.tools:dice" in run.said
    for row in house.cycles():
        assert row["action"]["tool"] == "dice"
        assert row["outcome"] == "success"
        assert row["total"] is not None


@pytest.mark.parametrize("module", ["1 / 0", "import os; os._exit(7)"])
def test_a_broken_package_stops_only_a_run_that_uses_its_mind(house: House, install: Install, module: str) -> None:
    """Its tools are set aside with a sentence; `--mind oracle` is refused, with status 2."""
    path = str(install(POINTS, module))

    run = house.run("--cycles", "1", PYTHONPATH=path)

    assert "set aside: conch.tools:dice: " in run.said
    refused = house.refused("run", "--mind", "oracle", status=2, PYTHONPATH=path)
    assert "mind.kind oracle, which a package registers in conch.minds, cannot be used: " in refused


def test_what_packages_register_is_listed(house: House, install: Install) -> None:
    """`conch doctor` and `conch config validate` name each, with what is wrong with it."""
    install(POINTS.replace(":dice", ":absent"), MIND)
    path = str(install("[conch.minds]\nopenai = second_plugin:Oracle\n", MIND, "second_plugin"))

    rows = json.loads(house.conch("config", "validate", "--json", PYTHONPATH=path))["plugins"]
    words = house.conch("config", "validate", PYTHONPATH=path)
    checks = json.loads(house.conch("doctor", "--json", PYTHONPATH=path))["checks"]

    assert {row["origin"]: bool(row["why"]) for row in rows} == {
        "conch.minds:openai": True,
        "conch.minds:oracle": False,
        "conch.tools:dice": True,
    }
    assert "conch.minds:oracle: mind.kind: oracle" in words
    assert "set aside: conch.minds:openai: the name 'openai' is taken by a mind of Conch" in words
    status = {check["name"]: check["status"] for check in checks}
    assert [status[f"conch.{name}"] for name in ("minds:oracle", "minds:openai", "tools:dice")] == [
        "ok",
        "warning",
        "warning",
    ]
