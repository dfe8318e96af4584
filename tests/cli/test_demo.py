"""`conch demo learn`: a run of its own, its page, going on after an interruption, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conch.cli import demo
from conch.cli.common import CommonOptions
from conch.config.model.rewards import BUILTIN_WEIGHTS
from conch.consumer.plugins import discover, reserved
from conch.errors import UsageError
from conch.home import Home
from conch.report import check

Printed = Callable[[], str]
SHIPPED = demo.CONFIG
SETTINGS = """\
# The settings of a test: a mind that needs no model.
mind:
  kind: reflex
ui:
  enabled: false
"""


@pytest.fixture(autouse=True)
def _without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings with the reflex mind, and a file in the place of the model."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "keys"))
    settings, model = tmp_path / "demo.yaml", tmp_path / "model.gguf"
    settings.write_text(SETTINGS)
    model.touch()
    monkeypatch.setattr(demo, "CONFIG", settings)
    monkeypatch.setattr("conch.engine.models.PackagedModel.file", model)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Where a demonstration is to live."""
    return Home(tmp_path / "home")


@pytest.fixture
def common(home: Home) -> CommonOptions:
    """The options that name it."""
    return CommonOptions(home=home.path)


async def test_it_ends_in_time_with_a_page_and_goes_on(home: Home, common: CommonOptions, printed: Printed) -> None:
    """Without a promotion it says so when its time is over and writes its page; a second call goes on in that home,
    and ends a run that an earlier one left there."""
    await demo.learn(minutes=0.05, common=common)

    said = printed()
    [first] = check(home.path / "learn.html").report.runs
    assert "the time is over, 0.05 minutes" in said
    assert f"no adapter was promoted after {first.cycles} cycles: no round has begun yet" in said
    assert home.running() is None
    async with demo._running(home) as left:
        await demo._begun(home, left)
        await demo.learn(minutes=0.05, common=common)

    said = printed()
    [second] = check(home.path / "learn.html").report.runs
    assert "goes on where it was" in said
    assert "the run that an earlier demonstration left" in said
    assert second.cycles > first.cycles


async def test_the_home_of_another_run_is_refused(home: Home, common: CommonOptions) -> None:
    """Its configuration is left as it is."""
    home.path.mkdir()
    home.config_file.write_text("agent: mine\n")

    with pytest.raises(UsageError, match="is not that of the demonstration: name an empty home"):
        await demo.learn(common=common)

    assert home.config_file.read_text() == "agent: mine\n"


async def test_missing_packages_are_named(common: CommonOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with the command that installs them, and nothing is made."""
    monkeypatch.setattr(demo, "MODULES", ("asyncio", "no_such_package"))

    with pytest.raises(UsageError, match=r"^no_such_package: not installed; pip install 'conch-agent\[local,train\]'$"):
        await demo.learn(common=common)

    assert not common.where().path.exists()


def test_its_settings_are_valid(common: CommonOptions) -> None:
    """The settings that it ships are read, and let it train by itself."""
    common.where().path.mkdir()
    common.where().config_file.write_text(SHIPPED.read_text())

    settings = common.settings()

    assert settings.training.enabled
    assert settings.mind.deciding.model == "smollm2"


def test_what_it_pays_by_its_own_rules_is_there(common: CommonOptions) -> None:
    """Each weight of its settings is of a built-in part or of its rules, and the rule that is held out has none."""
    common.where().path.mkdir()
    common.where().config_file.write_text(SHIPPED.read_text())
    settings = common.settings()

    rules = discover([str(demo.RULES)], reserved(settings)).rules

    assert {one.name: one.held_out for one in rules} == {"acts": False, "unharmed": True}
    weights = settings.rewards.weights or {}
    assert weights.keys() - BUILTIN_WEIGHTS.keys() == {"acts", "unharmed"}
    assert weights["unharmed"] == 0
