"""Layers: conch.yaml, then the environment, then the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BUILTIN_WEIGHTS, Settings
from conch.config.load import load
from conch.config.source import leaves, merged
from conch.home import Home

loading = importlib.import_module("conch.config.load")  # its package offers a function of this name


Read = Callable[..., Settings]
Refusal = Callable[..., str]

WEIGHTS = "rewards:\n  weights: {format: 0.3, execution: 0.25, needs: 0.2, goal: 0.15, exploration: 0.1}\n"


def test_without_anything_the_defaults_hold(home: Home) -> None:
    """No file, no variable, no flag."""
    assert load(None, home, {}) == Settings()


def test_the_later_layer_wins_key_by_key(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment goes over the file and the command line over both; what they do not name stays."""
    monkeypatch.setenv("CONCH_MIND__MODEL", "from-environment")
    monkeypatch.setenv("CONCH_MIND__TIMEOUT", "7")

    mind = read("mind: {model: from-file, timeout: 5, temperature: 0.1}", mind={"timeout": 9.0}).mind

    assert (mind.model, mind.timeout, mind.temperature) == ("from-environment", 9.0, 0.1)


def test_a_flag_that_was_not_given_changes_nothing(read: Read) -> None:
    """None on the command line is no value, also deep inside."""
    settings = read("seed: 4\nmind: {kind: openai}", seed=None, mind={"kind": None, "script": None})

    assert (settings.seed, settings.mind.kind) == (4, "openai")


def test_a_path_on_the_command_line_is_text(home: Home) -> None:
    """A Path is taken where the setting is text."""
    assert load(None, home, {"workspace": Path("/w")}).workspace == "/w"


def test_a_table_grows_by_what_a_later_layer_adds(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """One weight from the environment leaves the others of the file."""
    monkeypatch.setenv("CONCH_REWARDS__WEIGHTS__FORMAT", "0.2")
    monkeypatch.setenv("CONCH_REWARDS__WEIGHTS__BREVITY", "1e-1")

    assert read(WEIGHTS).rewards.weights == BUILTIN_WEIGHTS | {"format": 0.2, "brevity": 0.1}


def test_a_whole_value_may_stand_in_a_variable(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, lists and sections are written there as in the file; a list replaces the file's."""
    monkeypatch.setenv("CONCH_GOALS", '[{"id": "a", "statement": "s", "check": {"kind": "tests"}}]')
    monkeypatch.setenv("CONCH_BUS", "{keep: {days: 3}}")

    settings = read("goals:\n- {id: b, statement: s, check: {kind: file, path: p}}\nbus: {keep: {gib: 2}}")

    assert [goal.id for goal in settings.goals] == ["a"]
    assert (settings.bus.keep.days, settings.bus.keep.gib) == (3, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CONCH_MIND__MODEL", ""),
        ("CONCH_HOME", "/somewhere"),
        ("CONCH_PORT", "tcp://10.0.0.1:4222"),
        ("CONCH_SERVICE_HOST", "10.0.0.1"),
        ("CONCH_UI_SERVICE_PORT_HTTP", "80"),
        ("CONCH_PORT_4222_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_some_variables_say_nothing(home: Home, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Empty ones, those that name places, and those that Kubernetes sets for a service named conch."""
    monkeypatch.setenv(name, value)

    assert load(None, home, {}) == Settings()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CONCH_MINDD__MODEL", "CONCH_MIND__MODEL"),
        ("CONCH_MIND__MODLE", "CONCH_MIND__MODEL"),
        ("CONCH_MIND_MODEL", "CONCH_MIND__MODEL"),
        ("CONCH_NEEDS_MODE", "CONCH_NEEDS__MODE"),
        ("CONCH_METRICS_PORT", "CONCH_METRICS__PORT"),
        ("CONCH_SEEDS", "CONCH_SEED"),
        ("CONCH_AGENT__NAME", "CONCH_AGENT"),
        ("CONCH_DURABILITY", "CONCH_BUS__DURABILITY"),
        ("CONCH_GOALS__0__ID", "CONCH_GOALS"),
    ],
)
def test_a_variable_that_is_no_setting_is_refused(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    """A typo is never ignored; the variable that was meant is named."""
    monkeypatch.setenv(name, "hush")

    sentence = refusal()

    assert sentence.startswith(f"environment {name}: ")
    assert f"did you mean {meant}?" in sentence
    assert "hush" not in sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mind:\n  modle: x\n", "line 2: mind.modle is no setting; did you mean mind.model?"),
        ("temprature: 1\n", "line 1: temprature is no setting; did you mean mind.temperature?"),
        (
            "timeout: 3\n",
            "line 1: timeout is no setting; did you mean mind.timeout or tools.timeout or tools.http.timeout?",
        ),
        ("mind: {sandbox: off}\n", "line 1: mind.sandbox is no setting; did you mean tools.sandbox?"),
        ("zzzzzz: 3\n", "line 1: zzzzzz is no setting (conch config show lists all)"),
        ("mind: openai\n", "line 1: mind must hold keys of its own (key: value)"),
        ("goals: 3\n", "line 1: goals must be a list"),
        ("goals:\n- id: a\n  statement: s\n", "line 2: goals[0].check is missing"),
        (
            "goals:\n- id: a\n  statement: s\n  check:\n    kind: command\n    command: x\n    exit: 1\n",
            "line 7: goals[0].check.exit is no setting; did you mean goals[0].check.exit_status?",
        ),
        (
            "goals:\n- id: a\n  statement: s\n  prio: 1\n  check: {kind: tests}\n",
            "line 4: goals[0].prio is no setting; did you mean goals[0].priority?",
        ),
        ("rewards:\n  deadline: 1m\n", "line 2: rewards.deadline must be a valid number"),
        ("tools: {timeout: 0}\n", "line 1: tools.timeout must be greater than 0 (Seconds that one tool call may take)"),
        ("tools: {timeout: .inf}\n", "line 1: tools.timeout must be a valid number"),
        (
            "mind: {kind: opnai}\n",
            "line 1: mind.kind must be 'reflex', 'openai', 'local', 'transformers' or 'scripted'",
        ),
        ("agent: Me\n", "line 1: agent must match pattern"),
        ("seed: x\nagent: Me\n", "line 2: agent must match pattern"),
        (WEIGHTS.replace("0.3", "0.2"), "line 2: rewards cannot be: the weights sum to 0.9, they must sum to 1"),
        ("rewards:\n  weights:\n    goal: 2\n", "line 3: rewards.weights.goal must be less than or equal to 1"),
        ("needs: {own: {rest: {priority: 0.5, start: 1}}}", "line 1: needs cannot be: the priorities of needs.own"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_line(refusal: Refusal, text: str, sentence: str) -> None:
    """Place, key, what is wrong, and the nearest known key for an unknown one."""
    assert refusal(text).startswith(sentence)


def test_several_faults_are_counted(refusal: Refusal) -> None:
    """The first is told, and how many follow."""
    assert refusal("agent: Me\nseed: x\n").endswith(" (and 1 more)")


def test_the_layer_that_is_wrong_is_named(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the file, when the command line or the environment overrules it."""
    assert refusal("tools: {timeout: 3}", tools={"timeout": -1.0}).startswith("command line: tools.timeout must be")

    monkeypatch.setenv("CONCH_TOOLS__TIMEOUT", "soon")
    assert refusal("tools: {timeout: 3}").startswith("environment CONCH_TOOLS__TIMEOUT: tools.timeout must be")


def test_parts_that_do_not_fit_are_blamed_on_the_layer_that_spoilt_them(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of the file that a variable makes sum to something else."""
    monkeypatch.setenv("CONCH_REWARDS__WEIGHTS__GOAL", "0.9")

    assert refusal(WEIGHTS).startswith("environment CONCH_REWARDS__WEIGHTS__GOAL: rewards cannot be: the weights sum")


def test_a_variable_hides_no_fault_of_the_file(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mind: openai` stays wrong when the environment names a part of mind."""
    monkeypatch.setenv("CONCH_MIND__MODEL", "m")

    assert refusal("mind: openai\n").startswith("line 1: mind must hold keys of its own")


@pytest.mark.parametrize(
    "text",
    [
        "mind: {api_key: [hush]}",
        "mind: {api_key: *hush}",
        "mind: {api_key: !hush}",
        "mind: {api_key: !hush!hush}",
        "mind: {api_key: &hush}",
        "mind: {api_key: {hush: 1}}",
        "mind: {api_kee: hush}",
        "mind:\n  api_key: hush: hush",
        "mind:\n  api_key: 'hush\n",
        'mind:\n  api_key: "hush\\hush"\n',
        "bus: {url: 'nats://a:hush@h', replicas: hush}",
        "bus: {token: 'hush', replicas: 9}",
    ],
)
def test_no_secret_is_told(refusal: Refusal, text: str) -> None:
    """Whatever is wrong beside or with a secret, its value is not shown."""
    assert "hush" not in refusal(text).replace("mind.api_key.hush", "")


def test_each_value_knows_where_it_came_from(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """default, the line of the file, the variable, the command line; an empty key is a default."""
    home.config_file.write_text("agent: echo\nbus:\n  url:\nmind:\n  model: a\n  timeout: 3\n" + WEIGHTS)
    monkeypatch.setenv("CONCH_MIND__TIMEOUT", "4")
    monkeypatch.setenv("CONCH_REWARDS", "{weights: {goal: 0.15}}")

    origins = loading.read(None, home, {"seed": 1}).origins()

    file = home.config_file
    assert origins["agent"] == f"{file} line 1"
    assert origins["mind.model"] == f"{file} line 5"
    assert origins["mind.timeout"] == "environment CONCH_MIND__TIMEOUT"
    assert origins["rewards.weights.format"] == f"{file} line 8"
    assert origins["rewards.weights.goal"] == "environment CONCH_REWARDS"
    assert origins["seed"] == "command line"
    assert origins["bus.url"] == origins["mind.kind"] == origins["goals"] == "default"


_trees = st.recursive(
    st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1), max_leaves=6
)


@given(st.dictionaries(st.sampled_from("abc"), _trees), st.dictionaries(st.sampled_from("abc"), _trees))
def test_merging_loses_no_leaf_of_either(under: dict[str, object], over: dict[str, object]) -> None:
    """Every leaf of the result is one of the two layers', and each layer's leaf is there unless the other's is."""
    result = dict(leaves(merged(under, over)))

    lower, upper = dict(leaves(under)), dict(leaves(over))
    for path, value in result.items():
        assert value == upper.get(path, lower.get(path))
    for path in (*lower, *upper):
        assert any(path[: len(key)] == key or key[: len(path)] == path for key in result)


@pytest.mark.parametrize(
    "yaml",
    [
        'workspace: "\\0"',
        'mind: {script: "a\\0b"}',
        'store: {url: "sqlite:///\\0"}',
        'bus: {nkey: "\\0"}',
        'bus: {tls: {ca: "\\0"}}',
        'edge: {tls: {ca: "\\0"}}',
        f'values: {{file: "\\0", key: "{"A" * 43}="}}',
        'rewards: {judges: {tone: {rubric: "\\0"}}}',
    ],
)
def test_a_nul_is_refused_wherever_it_stands(refusal: Refusal, yaml: str) -> None:
    """No file has it in its name: the sentence names the line."""
    sentence = refusal(yaml)

    assert "line 1" in sentence
    assert "a NUL character cannot be in it" in sentence


def test_the_variables_of_openai_hold_where_the_settings_name_none(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for any client of that API; Conch's own variables and the file go before them."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")

    mind, named = read("mind: {kind: openai}").mind, read("mind: {api_key: sk-file, model: m}").mind

    assert mind.base_url == named.base_url == "https://models.example/v1"
    assert mind.api_key is not None
    assert mind.api_key.get_secret_value() == "sk-environment"
    assert named.api_key is not None
    assert named.api_key.get_secret_value() == "sk-file"


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://api.openai.com/v1", True),
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:11434/v1", True),
        ("https://models.example/other/v1", True),
        ("http://10.0.0.7:8000/v1", False),
        ("https://elsewhere.example/v1", False),
        ("http://[::1", False),
    ],
)
def test_the_key_of_the_environment_goes_to_no_other_host(
    read: Read, monkeypatch: pytest.MonkeyPatch, url: str, taken: bool
) -> None:
    """It was made for OpenAI, or the address that stands beside it; this machine's endpoints may have it too."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")

    mind = read("mind: {kind: openai, base_url: '" + url + "'}").mind

    assert mind.base_url == url
    assert (mind.api_key is not None) == taken
