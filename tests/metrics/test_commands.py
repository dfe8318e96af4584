"""`conch metrics rules | dashboards`: what they write, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from conch.cli.common import CommonOptions
from conch.cli.main import main
from conch.cli.metrics import dashboards, rules
from conch_services.metrics.instruments import Instruments

pytestmark = pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens:UserWarning")
OPS = Path(__file__).parents[2] / "ops"
PACKAGE = OPS.parent / "conch" / "metrics"
BOARDS = ("conch-agent", "conch-rewards", "conch-training", "conch-bus", "conch-fleet")
COLUMNS = 24
RULE = "from conch import rule\n\n\n@rule(weight=0.2, range=(0, 4))\ndef joy(action):\n    return 1.0\n"


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """`refused("rules", …)`: the exit code of that `conch metrics`, and its one sentence."""

    def ask(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["conch", "metrics", *arguments, "--home", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return int(str(ended.value.code)), err

    return ask


def test_the_rules_beside_the_deployment_are_those_that_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made anew with `conch metrics rules --out ops/prometheus/conch.yml`."""
    rules(common=CommonOptions(home=tmp_path))

    assert capsys.readouterr().out == (OPS / "prometheus" / "conch.yml").read_text()


def _files(directory: Path) -> dict[str, str]:
    return {str(file.relative_to(directory)): file.read_text() for file in directory.rglob("*.json")}


def test_the_dashboards_of_the_package_are_what_their_script_makes(tmp_path: Path) -> None:
    """Made anew with `python ops/dashboards`."""
    subprocess.run([sys.executable, OPS / "dashboards", tmp_path], check=True, timeout=120)

    assert _files(tmp_path) == _files(PACKAGE)
    assert set(_files(tmp_path)) == {"component_panel.json", *(f"grafana/{name}.json" for name in BOARDS)}


def test_for_the_defaults_the_dashboards_are_written_as_the_package_has_them(tmp_path: Path) -> None:
    """A file each; the package that makes them is not imported."""
    dashboards(out=tmp_path / "made", common=CommonOptions(home=tmp_path))

    assert _files(tmp_path / "made") == _files(PACKAGE / "grafana")
    assert not [name for name in sys.modules if name.startswith("grafana_foundation_sdk")]


def test_components_that_do_not_come_with_conch_have_panels_of_their_own(tmp_path: Path) -> None:
    """Below the others, each with its name in every query and a number of its own; the other files stay as they are."""
    (tmp_path / "conch.yaml").write_text("rewards: {parts: {joy: {}, calm: {}, awe: {}}}\n")

    dashboards(out=tmp_path / "made", common=CommonOptions(home=tmp_path))

    made, before = _files(tmp_path / "made"), _files(PACKAGE / "grafana")
    board, plain = (json.loads(files.pop("conch-rewards.json")) for files in (made, before))
    assert made == before
    own = board["panels"][len(plain["panels"]) :]
    assert board | {"panels": None} == plain | {"panels": None}
    assert board["panels"][: len(plain["panels"])] == plain["panels"]
    assert [panel["title"] for panel in own] == ["Scores of awe", "Scores of calm", "Scores of joy"]
    for name, panel in zip(("awe", "calm", "joy"), own, strict=True):
        assert all(f'component="{name}"' in target["expr"] for target in panel["targets"])
        assert "COMPONENT" not in json.dumps(panel)
    _stand_side_by_side(board["panels"])


def test_dashboards_are_printed_as_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of their files, for a program that puts them elsewhere."""
    dashboards(common=CommonOptions(home=tmp_path, json=True))

    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "conch.v1.metrics_dashboards"
    assert json.loads(told["dashboards"]["conch-bus.json"])["title"] == "Conch · Bus and consumers"


def test_dashboards_are_named_to_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each, and what writes them: the documents are of use to Grafana alone."""
    dashboards(common=CommonOptions(home=tmp_path))

    *named, advice = capsys.readouterr().out.splitlines()
    files = [json.loads((PACKAGE / "grafana" / f"{name}.json").read_text()) for name in BOARDS]
    assert [line.split(maxsplit=1) for line in named] == [[file["uid"], file["title"]] for file in files]
    assert advice.startswith("--out DIR writes a file each")


def test_rules_of_ones_own_have_alerts_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--rules`; a file that cannot be loaded is named and set aside."""
    (tmp_path / "joy.py").write_text(RULE)
    (tmp_path / "bad.py").write_text("1 / 0\n")

    rules(rules=[tmp_path / "joy.py", tmp_path / "bad.py"], common=CommonOptions(home=tmp_path))

    out, err = capsys.readouterr()
    [_, alerts] = yaml.safe_load(out)["groups"]
    own = {rule["alert"] for rule in alerts["rules"] if rule["labels"].get("component") == "joy"}
    assert own == {"ConchComponentFalling", "ConchComponentFailing"}
    assert "set aside" in err
    assert "ZeroDivisionError" in err


def test_what_is_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To a person a line a file, to a program one document; everybody may read the files."""
    file = tmp_path / "new" / "rules.yml"

    rules(out=file, common=CommonOptions(home=tmp_path))
    assert capsys.readouterr().out == f"wrote {file}\n"
    rules(out=file, common=CommonOptions(home=tmp_path, json=True))
    assert json.loads(capsys.readouterr().out) == {"schema": "conch.v1.metrics_written", "files": [str(file)]}
    rules(common=CommonOptions(home=tmp_path, json=True))
    told = json.loads(capsys.readouterr().out)

    assert yaml.safe_load(file.read_text())["groups"] == told["groups"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_what_cannot_be_written_is_one_sentence(refused: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Which file, why, and what to do; exit code 1."""
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "below"

    for command in ("rules", "dashboards"):
        code, said = refused(command, "--out", str(place))
        assert code == 1
        assert f"conch: {place}" in said
        assert "cannot be written (" in said
        assert "): name another --out" in said


def test_a_rule_file_that_is_not_there_is_one_sentence(refused: Callable[..., tuple[int, str]]) -> None:
    """Exit code 2."""
    code, said = refused("rules", "--rules", "nowhere.py")

    assert (code, said) == (2, "conch: there is no file nowhere.py (--rules)\n")


@pytest.mark.parametrize("name", BOARDS)
def test_panels_stand_side_by_side(name: str) -> None:
    """Each with a number of its own, none over another, none beyond the last column, all of the source that is
    chosen; no holes."""
    cells = _stand_side_by_side(json.loads((PACKAGE / "grafana" / f"{name}.json").read_text())["panels"])

    assert len(cells) % COLUMNS == 0


def _stand_side_by_side(panels: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    cells = Counter[tuple[int, int]]()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells.update(product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])))
    assert set(cells.values()) == {1}
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    return cells


def test_every_metric_is_looked_at_by_somebody() -> None:
    """In a dashboard or a rule: what nobody looks at need not be counted."""
    lines = Instruments().text(openmetrics=False).decode().splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    looked = "".join(
        file.read_text() for file in [*(PACKAGE / "grafana").glob("*.json"), OPS / "prometheus" / "conch.yml"]
    )

    assert [name for name in families if name not in looked] == []
