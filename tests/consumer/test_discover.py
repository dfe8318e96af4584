"""Plug-ins found, and broken ones named and set aside."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.config import Settings
from conch.consumer.plugins.builtin import builtin_names, builtin_services, reserved
from conch.consumer.plugins.discover import ConsumerInfo, Discovery, discover, load_one, plugin_of, row_of, rules_of
from conch.errors import ContractError, UsageError
from conch.rules import RuleInfo

discover_module = importlib.import_module("conch.consumer.plugins.discover")


HEAD = "from conch import consumer, rule\nfrom conch_schemas import ActionTaken\n"
GOOD = HEAD + '@rule(weight=0.1, range=(0.0, 2.0))\ndef brevity(action):\n    """Short is good."""\n    return 1.0\n'

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of rules; its path."""

    def put(text: str, name: str = "rules.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return put


def why(found: Discovery) -> str:
    """Why the one that was set aside was."""
    [broken] = found.broken
    return broken.why


def test_a_file_says_what_it_declares(write: Write) -> None:
    """Rules and consumers in the order of the file, with what they ask for; what it prints is no matter."""
    text = GOOD + "print('hello', end='')\n@consumer(ActionTaken, version='2')\nasync def joy(action): ...\n"

    found = discover([write(text)])

    assert found.broken == ()
    [brevity], [joy] = found.rules, found.consumers
    assert (brevity.name, brevity.weight, brevity.low, brevity.high) == ("brevity", 0.1, 0.0, 2.0)
    assert (brevity.doc, brevity.origin) == ("Short is good.", write(text))
    assert (joy.name, joy.version) == ("joy", "2")


def test_a_plug_in_comes_back_from_its_row() -> None:
    """Another process, or a command that reads the run's file, has the same rule and consumer; a row of a version that
    knows more or less is read all the same."""
    rule = RuleInfo("brevity", "2", 0.1, -1.0, 1.0, window=3, origin="b.py", text="x")
    consumer = ConsumerInfo("joy", "3", ["reward.assigned"], "j.py")
    rows = json.loads(json.dumps([row_of(rule), row_of(consumer)]))

    assert [plugin_of(row) for row in rows] == [rule, consumer]
    assert (rows[0]["kind"], rows[1]["kind"]) == ("rule", "consumer")
    assert rules_of([{"name": "brevity", "weight": 0.1, "newer": True}]) == (RuleInfo("brevity", weight=0.1),)


BROKEN = [
    ("raise RuntimeError('no\\x1bgood')", "RuntimeError: no"),
    ("x = 1\nno_such_name", "NameError: name 'no_such_name' is not defined (broken_1.py, line 2)"),
    ("def broken(:", "SyntaxError"),
    ("import no_such_module", "no_such_module"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("import os; os._exit(7)", "status 7"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "status -9"),
    ("x = 1", "declares no @rule"),
    (HEAD + "@rule(weight=7)\ndef much(action): ...", "weight 7"),
    (HEAD + "@rule(range=(1, 0))\ndef odd(action): ...", "range"),
]


def test_broken_files_are_named_and_the_rest_is_found(write: Write) -> None:
    """Whatever importing one does, it does to a process of its own."""
    files = [write(text, f"broken_{number}.py") for number, (text, _) in enumerate(BROKEN)]

    found = discover([*files, write(GOOD)])

    assert [broken.origin for broken in found.broken] == files
    for broken, (text, says) in zip(found.broken, BROKEN, strict=True):
        assert says in broken.why, text
    assert [plugin.name for plugin in found.plugins] == ["brevity"]


@pytest.mark.parametrize(
    "text",
    [
        "while True: pass",
        "import os, time\nos.fork()\ntime.sleep(60)",
    ],
)
def test_a_file_that_hangs_is_given_up(text: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit, together with what it started."""
    monkeypatch.setattr(discover_module, "LOOK_SECONDS", 1.0)

    assert "still being imported after 1 s" in why(discover([write(text)]))


def test_a_file_that_leaves_something_running_is_taken(write: Write) -> None:
    """A thread or a child that lives on does not hold up the looking."""
    text = "import subprocess, sys, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    text += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"

    found = discover([write(text + GOOD)])

    assert [plugin.name for plugin in found.plugins] == ["brevity"]


def test_of_two_of_one_name_the_first_is_taken(write: Write) -> None:
    """In one file, in two, and beside the names there are already; an alias is no second one."""
    twice = "again = brevity\n@rule()\ndef other(action): ...\nfirst = other\n@rule()\ndef other(action): ...\n"

    found = discover([write(GOOD + twice), write(GOOD, "second.py")], taken=["reward"])
    reserved = discover([write(GOOD)], taken=["brevity"])

    assert [plugin.name for plugin in found.plugins] == ["brevity", "other"]
    assert [broken.why for broken in found.broken] == ["the name 'other' is taken", "the name 'brevity' is taken"]
    assert why(reserved) == "the name 'brevity' is taken"
    assert reserved.plugins == ()


def test_what_a_rule_carries_is_told(write: Write) -> None:
    """Whether it is held out, has a state, a window; and the text of its file, which is what runs from then on."""
    text = "from pydantic import BaseModel\nclass Own(BaseModel): ...\n"
    text += "@rule(state=Own, held_out=True)\ndef fold(state, action): ...\n@rule(window=7)\ndef seven(actions): ...\n"
    path = write(HEAD + text)

    fold, seven = discover([path]).plugins

    assert (fold.stateful, fold.held_out, fold.window) == (True, True, None)
    assert (seven.stateful, seven.held_out, seven.window) == (False, False, 7)
    assert fold.text == HEAD + text
    write(HEAD + "@rule()\ndef other(action): ...\n")
    assert load_one(path, "seven", fold.text).name == "seven"


def test_files_are_looked_at_side_by_side(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several that hang when they are imported take as long as one; in the order of their names all the same."""
    monkeypatch.setattr(discover_module, "LOOK_SECONDS", 30.0)
    waits = "import pathlib, time\nhere = pathlib.Path(__file__).parent\n(here / f'{time.time_ns()}.met').touch()\n"
    waits += "while len(list(here.glob('*.met'))) < 3: time.sleep(0.01)\n"
    files = [write(f"{waits}{HEAD}@rule()\ndef rule_{one}(action): ...\n", f"{one}.py") for one in "cab"]

    found = discover(files)

    assert found.broken == ()
    assert [plugin.name for plugin in found.plugins] == ["rule_c", "rule_a", "rule_b"]


def test_a_changed_file_is_never_taken_for_what_lies_compiled_beside_it(write: Write) -> None:
    """Two versions of one length, written within a second: each is what it is."""
    values = []
    for version in "12345":
        path = write(GOOD.replace("weight=0.1", f"weight=0.{version}"))
        values.append(discover([path]).plugins[0].weight)

    assert values == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_names_that_others_bear_already_are_taken(write: Write) -> None:
    """Those of built-in consumers and components, of judges and of what others score, in the settings; and a consumer's
    is one that no rule's own consumer has."""
    rewards = {"judges": {"wit": {"rubric": "wit.txt"}}, "parts": {"thumbs": {}}}
    names = ["reward", "format", "ethical", "wit", "thumbs", "fine"]
    text = "".join(f"@rule()\ndef {name}(action): ...\n" for name in names)
    text += "".join(
        f"@consumer(ActionTaken, name='{name}')\ndef c(action): ...\n" for name in ("rule-fine", "judge-wit")
    )
    text = text.replace("def c(action)", "def c1(action)", 1)

    found = discover([write(HEAD + text)], taken=reserved(Settings.model_validate({"rewards": rewards})))

    assert [plugin.name for plugin in found.plugins] == ["fine"]
    said = [broken.why for broken in found.broken]
    assert said == [f"the name {name!r} is taken" for name in (*names[:-1], "rule-fine", "judge-wit")]


def test_a_link_is_followed_when_it_is_looked_at(write: Write, tmp_path: Path) -> None:
    """The origin is the path as it was given, not where it led at first; one file by two names is looked at once."""
    link = tmp_path / "link.py"
    link.symlink_to(write(GOOD))

    found = discover([str(link), write(GOOD), str(link)])
    link.unlink()
    link.symlink_to(write(GOOD.replace("weight=0.1", "weight=0.2"), "second.py"))
    again = discover([str(link)])

    assert (found.broken, again.broken) == ((), ())
    [first], [second] = found.plugins, again.plugins
    assert first.origin == second.origin == str(link)
    assert (first.weight, second.weight) == (0.1, 0.2)


def test_a_file_that_is_no_python_is_named(write: Write) -> None:
    """By what it should be called."""
    assert "end in .py" in why(discover([write(GOOD, "rules.txt")]))


def test_a_file_that_is_not_there_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    """So is a directory."""
    with pytest.raises(UsageError, match=r"there is no file .*absent\.py \(--rules\)"):
        discover([str(tmp_path / "absent.py")])
    with pytest.raises(UsageError, match="there is no file"):
        discover([str(tmp_path)])


def install(folder: Path, points: str, module: str) -> None:
    """A package with entry points."""
    info = folder / "tiny_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (folder / "tiny_plugin.py").write_text(module)


def test_an_installed_package_brings_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By entry points: a function, or a module of them; a broken one is named by its group and name."""
    points = "[conch.rules]\nbrevity = tiny_plugin:brevity\nbroken = tiny_plugin:absent\n"
    points += "[conch.consumers]\njoy = tiny_plugin:joy\n"
    install(tmp_path, points, GOOD + "@consumer(ActionTaken)\ndef joy(action): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    found = discover([])

    assert [(plugin.name, plugin.origin) for plugin in found.plugins] == [
        ("brevity", "conch.rules:brevity"),
        ("joy", "conch.consumers:joy"),
    ]
    assert found.broken[0].origin == "conch.rules:broken"
    assert "absent" in why(found)


def test_a_package_that_cannot_declare_anything_is_named(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry points cannot be read: it is set aside, and all others are found, those of Conch among them."""
    install(tmp_path, "[conch.rules]\nno equals sign\n", GOOD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    found = discover([write(GOOD)])

    assert [plugin.name for plugin in found.plugins] == ["brevity"]
    assert [one.origin for one in found.broken] == ["package tiny-plugin"]
    assert "entry_points.txt cannot be read" in why(found)
    assert "reward" in builtin_names(Settings())
    assert list(builtin_services(["reward"])) == ["reward"]


def test_one_is_loaded_by_its_name(write: Write) -> None:
    """A file that has changed since says so."""
    path = write(GOOD)

    assert load_one(path, "brevity").name == "brevity"
    with pytest.raises(ContractError, match="declares no 'gone' any more"):
        load_one(path, "gone")
